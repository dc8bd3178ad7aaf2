"""The tables of options in docs/reference/commands.md are what the commands declare.

`python tests/docs/test_option_tables.py` writes them again.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from meantime.cli import cli
from meantime.cli.options import Documented

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reference" / "commands.md"
COMMANDS = (
    "statemap",
    "heatmap",
    "stats",
    "build",
    "join",
    "query",
    "sql",
    "check",
    "flame",
    "diff",
)
TABLE = re.compile(r"^\| option \| value \| \|\n(?:\|.*\n)+", re.MULTILINE)
# What the top of the document explains for all commands.
READING = {
    "As [above](#commands), how the input is read.": (
        *("format", "include", "repair_clocks", "allow_paths", "allow_urls", "memory"),
    ),
    "As [above](#commands), what the columns of a table or a log are.": (
        *("columns", "line_pattern", "pair", "pair_by"),
    ),
}


def command_of(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def table(command: click.Command) -> str:
    """Return the table of a command's options."""
    options = [each for each in command.params if isinstance(each, click.Option)]
    shared = {name for names in READING.values() for name in names}
    lines = ["| option | value | |", "|---|---|---|"]
    lines += [
        f"| {names(each)} | {value(each)} | {text(each)} |"
        for each in options
        if each.name not in shared
    ]
    for sentence, grouped in READING.items():
        there = [each for name in grouped for each in options if each.name == name]
        if there:
            lines.append(f"| {', '.join(map(names, there))} | | {sentence} |")
    return "\n".join(lines) + "\n"


def names(option: click.Option) -> str:
    return ", ".join(f"`{each}`" for each in option.opts)


def value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return ", ".join(f"`{each}`" for each in option.type.choices)
    return (option.metavar or "").replace("|", r"\|")


def text(option: click.Option) -> str:
    """Return the sentence of the help, what is said besides, and the default."""
    sentence, _, default = (option.help or "").partition("  [")
    more = option.more if isinstance(option, Documented) else ""
    without = f"Default: {default.removesuffix(']')}." if default else ""
    return " ".join(each for each in (sentence, more, without) if each).replace("|", r"\|")


def section(document: str, name: str) -> re.Match[str]:
    found = re.search(rf"^## meantime {name}$(.*?)(?=^## |\Z)", document, re.MULTILINE | re.DOTALL)
    assert found, f"docs/reference/commands.md has no section '## meantime {name}'"
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_options_is_what_the_command_declares(name: str) -> None:
    found = TABLE.search(section(DOCUMENT.read_text(), name)[1])

    assert found is not None
    assert found[0] == table(command_of(name)), "run python tests/docs/test_option_tables.py"


def written(document: str) -> str:
    """Return the document with the tables of now."""
    for name in COMMANDS:
        found = section(document, name)
        table_of = table(command_of(name))
        changed = TABLE.sub(lambda _, new=table_of: new, found[1], count=1)
        document = document[: found.start(1)] + changed + document[found.end(1) :]
    return document


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
