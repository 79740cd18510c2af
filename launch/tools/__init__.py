"""The subcommands of `hcom-tool`: each file is one, a typer application named `app`."""
