"""The documents agree with the program."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
import pytest

from meantime.cli import COMMANDS, cli

if TYPE_CHECKING:
    from pathlib import Path


def markdown(root: Path) -> list[Path]:
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_in_the_reference(name: str, root: Path) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    text = (root / "docs" / "reference" / "commands.md").read_text()
    section = re.search(rf"^## meantime {name}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, f"docs/reference/commands.md has no section '## meantime {name}'"
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]

    missing = [
        option.opts[-1] if option.name != "help" else "--help"
        for option in options
        if not any(re.search(rf"`{re.escape(opt)}\b", section[1]) for opt in option.opts)
    ]

    assert missing == []


def test_every_command_that_is_named_exists(root: Path) -> None:
    named = re.compile(r"[`(]meantime ([a-z][a-z-]*)(?=[ `)])")
    texts = [*markdown(root), *(root / "src").rglob("*.py"), *(root / "web").glob("*/*.ts")]

    unknown = [
        f"{path.relative_to(root)}: meantime {name}"
        for path in texts
        if path.name != "CHANGELOG.md"
        for name in named.findall(path.read_text())
        if name not in COMMANDS
    ]

    assert unknown == []


def test_every_link_between_documents_leads_somewhere(root: Path) -> None:
    broken = [
        f"{document.name}: {target}"
        for document in markdown(root)
        for target in re.findall(r"\]\(([^)#]+)", document.read_text())
        if "://" not in target and not (document.parent / target).exists()
    ]

    assert broken == []


def test_every_document_is_reached_from_the_index(root: Path) -> None:
    docs = root / "docs"
    index = (docs / "index.md").read_text()
    pages = {str(p.relative_to(docs).with_suffix("")) for p in docs.rglob("*.md")} - {"index"}

    listed = set(re.findall(r"^([a-z][\w/-]*)$", index, re.MULTILINE))

    assert pages == listed


def test_the_project_speaks_of_itself_alone(root: Path) -> None:
    for document in markdown(root):
        assert not re.search(r"/work/|/root/|/home/\w", document.read_text()), document
