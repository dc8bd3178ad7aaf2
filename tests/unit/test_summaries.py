"""`meantime.summarize` and `meantime summary`: what is kept of a trace to compare it."""

from __future__ import annotations

import json
import os
import random
import zlib
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.cli import main
from meantime.errors import InputError
from meantime.model.summary_sign import BEGINS
from meantime.query.compare import summaries
from meantime.query.compare.summary_file import encoded, read_summary
from meantime.testing import history_from_samples, history_from_spans

if TYPE_CHECKING:
    from pathlib import Path

SPANS = history_from_spans(
    {
        "main": [("request", 0, 40), ("query", 10, 30), ("request", 50, 90)],
        "pool": [("query", 5, 9)],
    }
)
SAMPLES = history_from_samples([(0, "t", ["f", "g"], 5), (1, "t", ["f"], 2)])


def status(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    return int(stopped.value.code or 0)


@pytest.mark.parametrize(
    "rule",
    [
        'count of "request" below 3',
        'count of "request" above 3',
        'total of "request" below 100 ns',
        'self of "request" below 60 ns',
        'longest of "query" below 20 ns',
        'shortest of "query" above 4 ns',
        'mean of "query" below 12 ns',
        'median of "request" below 41 ns',
        'rate of "request" above 1',
    ],
)
def test_rules_about_figures_hold_for_a_summary_as_for_its_trace(rule: str) -> None:
    (expected,) = meantime.check_rules(SPANS, [rule])
    (found,) = meantime.check_rules(meantime.summarize(SPANS), [rule])

    assert (found.holds, found.measured) == (expected.holds, expected.measured)


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ('no * in "request" for over 1 s', "needs the trace"),
        ('p99 of "request" below 1 s on */main', "is not a rule"),
        ('p99 of "request" on */main below 1 s', "needs the trace"),
        ('p99 of "nothing" below 1 s', "matches nothing"),
    ],
)
def test_other_rules_need_the_trace(rule: str, error: str) -> None:
    with pytest.raises(meantime.MeantimeError) as caught:
        meantime.check_rules(meantime.summarize(SPANS), [rule])
    assert error in str(caught.value)


def test_a_summary_is_written_for_those_who_may_read_the_trace(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, made = tmp_path / "own.statemap.gz", tmp_path / "main.mts"
    trace.write_bytes((root / "examples" / "postgres.statemap.gz").read_bytes())
    trace.chmod(0o600)
    assert status("summary", str(trace), "-o", str(made)) == 0
    assert capsys.readouterr().err.startswith(f"{made}: ")
    saved = tmp_path / "saved.mts"
    meantime.summarize(trace).save(saved)
    if hasattr(os, "geteuid"):
        assert (made.stat().st_mode & 0o777, saved.stat().st_mode & 0o777) == (0o600, 0o600)

    assert status("diff", str(made), str(trace), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["change"] for row in document["rows"]} == {0}
    assert "Quantiles are within 0.4%: 1 run of 2 is a summary." in document["sentences"]
    assert status("assert", str(made), "--rule", 'longest of "futex" below 1 s') == 0
    assert capsys.readouterr().out.startswith("holds ")
    picture = tmp_path / "out.svg"
    assert status("diff", str(made), str(made), "-o", str(picture)) == 0
    assert "Over time" not in picture.read_text()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["summary", "TRACE", "-o", "main.json"], "must end in .mts"),
        (["diff", "SUMMARY", "SUMMARY", "--from", "1ms"], "a summary is of all of its trace"),
        (["diff", "SUMMARY", "SUMMARY", "-o", "OUT", "--align", "end"], "a summary has no times"),
        (["assert", "SUMMARY", "--rule", 'count of "futex" above 1', "--strict"], "--strict"),
    ],
)
def test_command_lines_that_are_wrong(
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    error: str,
) -> None:
    trace = root / "examples" / "postgres.statemap.gz"
    made = tmp_path / "main.mts"
    meantime.summarize(trace).save(made)
    names = {"TRACE": trace, "SUMMARY": made, "OUT": tmp_path / "out.svg"}

    assert status(*(str(names.get(word, word)) for word in words)) == 2
    assert error in capsys.readouterr().err


def test_other_commands_say_what_a_summary_is_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    meantime.summarize(SPANS).save(tmp_path / "main.mts")

    assert status("info", str(tmp_path / "main.mts")) == 1
    assert "a summary of a trace" in capsys.readouterr().err


def test_what_is_too_large_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summaries, "MOST_GROUPS", 1)
    found = meantime.summarize(SPANS)

    assert found.left_out["name"] == "2 groups are too many"
    with pytest.raises(meantime.MeantimeError, match="no figures by name: 2 groups are too many"):
        meantime.compare(found, SPANS)
    assert meantime.compare(found, SPANS, by="stack").rows


def test_a_later_version_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "main.mts"
    path.write_bytes(BEGINS + b"2\n" + b"something else")

    with pytest.raises(InputError, match="version 2, and this meantime reads version 1"):
        meantime.compare(path, path)


def damaged(content: bytes, generator: random.Random) -> bytes:
    """Return other content of a summary: of its numbers, texts and columns."""
    line = content.index(b"\n") + 1
    inner = bytearray(zlib.decompress(content[line + 4 :]))
    for _ in range(generator.randint(1, 4)):
        at = generator.randrange(len(inner))
        match generator.randrange(4):
            case 0:
                inner[at] = generator.randrange(256)
            case 1:
                inner[at] = ord(generator.choice('0123456789[]{}",:n-.e'))
            case 2:
                del inner[at : at + generator.randint(1, 20)]
            case _:
                inner[at:at] = inner[at : at + generator.randint(1, 20)]
    packed = zlib.compress(bytes(inner))
    return content[:line] + zlib.crc32(packed).to_bytes(4, "little") + packed


def test_damage_is_an_error_or_a_summary(tmp_path: Path) -> None:
    path = tmp_path / "main.mts"
    generator = random.Random(7)  # noqa: S311 - not for secrets
    refused: list[str] = []
    for content in map(encoded, map(meantime.summarize, (SPANS, SAMPLES))):
        for _ in range(400):
            path.write_bytes(damaged(content, generator))
            try:
                found = read_summary(path)
            except InputError as error:
                refused.append(str(error))
                continue
            try:
                json.dumps(meantime.compare(found, found).as_json(), allow_nan=False)
            except meantime.MeantimeError:
                continue
    assert {*refused} == {f"{path}: is damaged; write the summary again"}
    assert len(refused) > 400


@pytest.mark.parametrize("part", [slice(0, 10), slice(0, 19), slice(0, 60), slice(0, -1)])
def test_a_part_of_a_summary_is_damaged(tmp_path: Path, part: slice) -> None:
    path = tmp_path / "main.mts"
    path.write_bytes(encoded(meantime.summarize(SPANS))[part])

    with pytest.raises(InputError):
        read_summary(path)


def test_more_than_its_bytes_justify_is_not_unpacked(tmp_path: Path) -> None:
    packed = zlib.compress(bytes(1 << 28), 9)
    path = tmp_path / "main.mts"
    path.write_bytes(BEGINS + b"1\n" + zlib.crc32(packed).to_bytes(4, "little") + packed)

    with pytest.raises(InputError, match="is damaged"):
        read_summary(path)
