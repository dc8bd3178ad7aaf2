from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from meantime.cli import COMMANDS, cli


def paths() -> list[list[str]]:
    """Return the words of each command and subcommand."""
    found: list[list[str]] = [[]]
    for name in COMMANDS:
        found.append([name])
        command = cli.get_command(click.Context(cli), name)
        if isinstance(command, click.Group):
            found += [[name, each] for each in command.list_commands(click.Context(command))]
    return found


@pytest.mark.parametrize("option", ["--help", "-h", "-?"])
@pytest.mark.parametrize("path", paths(), ids=" ".join)
def test_the_help_of_each_command_is_whole(path: list[str], option: str) -> None:
    result = CliRunner().invoke(cli, [*path, option], prog_name="meantime", terminal_width=80)

    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: {' '.join(['meantime', *path])} ")
    assert "\\b" not in result.stdout
    assert "\b" not in result.stdout
    assert [line for line in result.stdout.splitlines() if len(line) > 80] == []


def test_the_questions_of_query_have_a_line_each() -> None:
    text = CliRunner().invoke(cli, ["query", "--help"]).stdout

    assert "  at TIME             state of every attribute at a time\n" in text
    assert "  tree [PATTERN]      paths of the attributes\n" in text
