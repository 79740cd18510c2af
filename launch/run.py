"""The command `hcom-run`: start a program on several ranks, and end all of it together."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from launch import mpi
from launch.job import Job
from launch.threads import thread_variables

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    program: Annotated[list[str], typer.Argument(help="program.py and its arguments")],
    ranks: Annotated[int, typer.Option("-n", "--ranks", min=1, help="number of ranks")],
    module: Annotated[bool, typer.Option("-m", help="the program is a module's name")] = False,
) -> None:
    """Run a program on several ranks of this host, each an emulated NPU.

    Output passes through line by line. When a rank fails, or at Ctrl-C, every rank ends, the first
    failure is printed once, and the exit status is that rank's.
    """
    if not module and program[0].endswith(".py") and not Path(program[0]).is_file():
        raise typer.BadParameter(f"no such file: {program[0]}", param_hint="PROGRAM")
    try:
        found = mpi.find()
    except mpi.MpiNotFoundError as error:
        typer.echo(f"hcom-run: {error}", err=True)
        raise typer.Exit(1) from None
    environment = os.environ | thread_variables(ranks, os.environ)
    command = ["-m", *program] if module else program
    sys.exit(Job(found, ranks, command).run(environment))


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
