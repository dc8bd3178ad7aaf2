"""`meantime completion`: the script for a shell that completes the command line."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["command"]


@click.command("completion", epilog="Example:  meantime completion bash >> ~/.bashrc")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(*, shell: str) -> None:
    """Print the script that completes commands, options and file names in a shell.

    \b
    bash    meantime completion bash >> ~/.bashrc
    zsh     meantime completion zsh >> ~/.zshrc
    fish    meantime completion fish > ~/.config/fish/completions/meantime.fish
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    found = get_completion_class(shell)
    assert found is not None
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, "meantime", "_MEANTIME_COMPLETE").source())
