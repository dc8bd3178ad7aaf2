"""The table of formats, against the readers and the documents that it is about."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest

import meantime
from meantime.cli import main
from meantime.errors import InputError, MeantimeError
from meantime.readers import open_trace
from meantime.readers.evidence import Strength
from meantime.readers.formats import FORMATS


def test_the_page_of_formats_has_what_is_declared(root: Path) -> None:
    page = (root / "docs" / "formats.md").read_text()
    sys.path.insert(0, str(root / "docs"))
    try:
        writer = import_module("write_formats")
    finally:
        sys.path.remove(str(root / "docs"))

    assert writer.written(page) == page, "run python docs/write_formats.py"


def test_every_format_is_declared_with_all_that_is_said_of_it() -> None:
    for each in FORMATS:
        assert each.uses, each.format
        assert all(use.called and use.made_by and use.run for use in each.uses), each.format
        assert bool(each.signs) is not each.is_directory, each.format
        # without them it is recognised by its name alone
        assert each.is_directory or any(sign.strength > Strength.HINT for sign in each.signs)
        assert not (each.rows or each.damaged) or each.example, each.format
    assert len({each.format for each in FORMATS}) == len(FORMATS)


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


SAMPLES = Path(__file__).resolve().parents[1] / "samples"
TEXTS = {
    "epoch.strace": b"7 1700000000.000001 read(3) = 0 <0.000002>\n" * 3,
    "log.ninja_log": b"# ninja log v5\n0\t5\t1700000000000000000\ta.o\t1f\n",
    **{
        name: b"".join(b"a 7 [000] %d.000000: 1 x: \n\n" % n for n in range(begin, begin + 3))
        for name, begin in (("epoch.perf", 1_700_000_000), ("boot.perf", 5))
    },
}


def test_a_trace_counts_utc_if_its_history_does(tmp_path: Path) -> None:
    for name, content in TEXTS.items():
        (tmp_path / name).write_bytes(content)
    kinds: dict[str, tuple[str, bool]] = {}
    for path in sorted([*SAMPLES.rglob("*"), *tmp_path.iterdir()]):
        if path.suffix in {".md", ".toml"} or not path.is_file() or path.stat().st_size > 2**20:
            continue
        try:
            clock = meantime.open(path).clock
        except MeantimeError:
            continue
        trace = open_trace(path)
        for _ in trace.batches:
            pass
        assert (path.name, trace.clock) == (path.name, clock)
        kinds[path.name] = clock.kind, clock.utc_at_origin_ns is not None

    assert [kinds[name] for name in TEXTS] == [("realtime", True)] * 3 + [("unknown", False)]
    assert len(kinds) > 50
    # also where the samples are counted while they are read
    assert meantime.heatmap(tmp_path / "epoch.perf").data.utc_at_zero_ns == 0
