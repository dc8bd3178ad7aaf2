"""The table of formats, against the readers and the documents that it is about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.cli import main
from meantime.errors import InputError
from meantime.readers import readers
from meantime.readers.formats import FORMATS

if TYPE_CHECKING:
    from pathlib import Path


def test_every_reader_is_in_the_table_and_in_the_documents(root: Path) -> None:
    listed = [each.format for each in FORMATS]
    # these are directories, which no reader recognises by its bytes
    assert sorted(listed) == sorted([*(reader.FORMAT for reader in readers()), "ctf", "history"])
    page = (root / "docs" / "formats.md").read_text()
    assert [each.called for each in FORMATS if each.called not in page] == []


def test_formats_are_listed_within_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit):
        main(["formats", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {each["format"] for each in found["read"]} == {each.format for each in FORMATS}
    assert any("go tool pprof" in each["advice"] for each in found["refused"])

    monkeypatch.setattr("meantime.cli.tables.width_of", lambda _: 80)
    with pytest.raises(SystemExit):
        main(["formats"])
    lines = capsys.readouterr().out.splitlines()
    assert any("pprof" in line for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("data", "called"),
    [
        (b"@ cycles [12 samples]\n", "a report of pmcstat"),
        (b"hdrbhetbetb\0\0\0\1", "an eventlog of GHC"),
        (b"go 1.22 trace\0\0\0", "an execution trace of Go 1.22 or later"),
    ],
)
def test_profiles_that_are_not_read_are_refused_by_name(
    tmp_path: Path, data: bytes, called: str
) -> None:
    (tmp_path / "some").write_bytes(data)
    with pytest.raises(InputError, match=called):
        meantime.open(tmp_path / "some")
