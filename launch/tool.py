"""The command `hcom-tool`: look at what is here and at what would run; it changes nothing."""

import pkgutil
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

import launch.tools


class Tools(TyperGroup):
    """One subcommand a file in launch/tools/, imported when it is called for.

    So `hcom-tool env` also works, and says why, where the others cannot even be imported.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Name the subcommands."""
        return sorted(module.name for module in pkgutil.iter_modules(launch.tools.__path__))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load one subcommand; None if there is none of that name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = typer.main.get_command(import_module(f"launch.tools.{cmd_name}").app)
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=Tools, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


@app.callback()
def tool() -> None:
    """Look at schedules, and at the environment that ranks would run in."""


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
