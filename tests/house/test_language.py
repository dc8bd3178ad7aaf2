"""User-visible texts and comments are plain English: some words of an older style are gone."""

from __future__ import annotations

import io
import re
import tokenize
from typing import TYPE_CHECKING

from click.testing import CliRunner

from meantime.cli import COMMANDS, cli

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# What to write instead: report, show or distinguish; again; on or when; also; is not a.
_FORBIDDEN = re.compile(
    r"\b(tells?|told|telling|anew|upon|likewise|as (?:it|one) says|what (?:it|he|one) says"
    r"|(?<!there )(?<!this )is no|(?<!there )are no)\b",
    re.IGNORECASE,
)
_TEXTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**/*.md", "examples/*")
_SOURCES = (
    *("src/meantime/**/*.py", "src/meantime/**/*.py[xd]", "src/meantime/**/*.h"),
    *("web/shared/*.ts", "web/svg-script/**/*.ts", "web/viewer/*.ts"),
)


def files(root: Path, patterns: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """Yield the files to check, with their names in the checkout."""
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            name = path.relative_to(root).as_posix()
            if path.is_file() and path.suffix not in {".gz", ".jsonl"}:
                yield name, path


def strings_and_comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of the texts in Python source, with their numbers."""
    middle = getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in {tokenize.STRING, tokenize.COMMENT, middle}:
            yield from enumerate(token.string.splitlines(), token.start[0])


def offences(name: str, lines: Iterator[tuple[int, str]]) -> list[str]:
    """Return the lines that have a forbidden word, as an editor finds them."""
    return [
        f"{name}:{number}: {found[0]!r} in {line.strip()}"
        for number, line in lines
        if (found := _FORBIDDEN.search(line))
    ]


def test_the_help_of_every_command_is_plain_english() -> None:
    found = []
    for name in COMMANDS:
        text = CliRunner().invoke(cli, [name, "--help"], prog_name="meantime").stdout
        assert text
        found += offences(f"meantime {name} --help", enumerate(text.splitlines(), 1))

    assert found == []


def test_documents_are_plain_english(root: Path) -> None:
    found = []
    for name, path in files(root, _TEXTS):
        found += offences(name, enumerate(path.read_text().splitlines(), 1))

    assert found == []


def test_strings_and_comments_are_plain_english(root: Path) -> None:
    found = []
    for name, path in files(root, _SOURCES):
        text = path.read_text()
        lines = (
            strings_and_comments(text) if path.suffix == ".py" else enumerate(text.splitlines(), 1)
        )
        found += offences(name, lines)

    assert found == []


def test_a_forbidden_word_is_found_with_its_line() -> None:
    source = (
        'tell = 1\n"""One.\n\nThe cache is built anew.\n"""\n# there is no file, that is no file\n'
    )

    assert offences("a.py", strings_and_comments(source)) == [
        "a.py:4: 'anew' in The cache is built anew.",
        "a.py:6: 'is no' in # there is no file, that is no file",
    ]
