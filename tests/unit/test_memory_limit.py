"""Documents that would take more memory than there is are refused before they are parsed."""

from __future__ import annotations

import gzip
import json
import resource
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from large_inputs import flight_recording, nsight

import meantime
from meantime.cli import cli
from meantime.errors import InputError
from meantime.readers import memory_limit, pprof, source
from meantime.readers.memory_limit import available_bytes, check_json

if TYPE_CHECKING:
    from pathlib import Path

HEADS = {
    "speedscope": (
        b'{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[',
        b'{}]},"profiles":[]}',
    ),
    "zipkin": (b'[{"traceId":"1","id":"1","timestamp":1,"name":"a"},', b"{}]"),
    "an array of rows": (b'[{"start_ns":1,"end_ns":2,"state":"a"},', b"{}]"),
}


def bomb(kind: str, objects: int) -> bytes:
    head, tail = HEADS[kind]
    return head + b"{}," * objects + tail


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "_FREELY", 1 << 10)
    monkeypatch.setattr(memory_limit, "available_bytes", lambda: 4_000_000)


@pytest.mark.parametrize("kind", HEADS)
def test_more_objects_than_memory_are_refused_unless_they_are_allowed(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "bomb.json"
    path.write_bytes(bomb(kind, 100_000))

    with pytest.raises(
        InputError, match=r"objects and lists, .* at least .* MB of memory, and 3 MB .* --memory"
    ):
        meantime.open(path)
    # then it is read, and may be refused for what it says
    try:
        meantime.open(path, memory=1_000_000_000)
    except InputError as error:
        assert "of memory" not in error.reason  # noqa: PT017 - an array of rows is not refused
    refused = CliRunner().invoke(cli, ["info", str(path)])
    assert "of memory" in str(refused.exception)
    allowed = CliRunner().invoke(cli, ["info", "--memory", "1G", str(path)])
    assert "of memory" not in str(allowed.exception)


@pytest.mark.parametrize("kind", ["speedscope", "an array of rows"])
def test_what_becomes_objects_may_expand_less(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_OBJECTS_EXPANDED_FREELY", 1_000_000)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(bomb(kind, 10_000_000)))

    with pytest.raises(InputError, match=r"over 100 times as many"):
        meantime.open(path)
    with pytest.raises(InputError, match="of memory"):
        meantime.open(path, memory=100_000_000)


RECORDS = {
    "pb": (b"\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x01a\x32\x01b", b"\x12\x00"),
    "xml": (b"<testsuite>", b"<testcase/>"),
    "folded": (b"a;b 1\n", b"a;b 1\n"),
    "callgrind": (b"# callgrind format\nversion: 1\nevents: Ir\nfn=(1) a\n", b"1 1\n"),
    "log": (b"", b"2024-01-02 03:04:05,006 INFO app: message\n"),
    "ninja_log": (b"# ninja log v5\n", b"1\t2\t0\tt\tab\n"),
    "trace": (b"go 1.19 trace\0\0\0", b"\x02\x00\x01"),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_records_that_become_objects_may_expand_less(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_OBJECTS_EXPANDED_FREELY", 100_000)
    head, record = RECORDS[kind]
    path = tmp_path / f"bomb.{kind}.gz"
    path.write_bytes(gzip.compress(head + record * (30_000_000 // len(record))))

    with pytest.raises(InputError, match=r"over 100 times as many.* --memory SIZE"):
        meantime.open(path)


def profile(strings: int) -> bytes:
    return b"\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x01a\x32\x01b" + b"\x32\x02cd" * strings


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("x.pb", profile(120_000), r"the profile has 120,004 fields"),
        ("x.pb", profile(50_000), r"the profile has 50,003 strings"),
        ("x.jfr", flight_recording(20, 30_000), r"a chunk of it has 30,002 constants of java"),
        ("x.sqlite", nsight(60_000), r"its tables have \d+,\d+ rows or more"),
    ],
)
def test_more_of_a_file_than_fits_into_memory_is_refused_unless_it_is_allowed(
    name: str, data: bytes, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pprof, "_FEW_FIELDS", 1000)
    path = tmp_path / name
    path.write_bytes(data)

    with pytest.raises(InputError, match=f"{what}.*, which take .* and 3 MB .* --memory"):
        meantime.open(path)
    meantime.open(path, memory=1_000_000_000)


def test_what_is_read_in_blocks_is_bounded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_EXPANDED_FREELY", 100_000)
    path = tmp_path / "bomb.statemap.gz"
    head = b'{"start":[0,0],"title":"t","states":{"a":{"value":0}}}\n'
    record = b'{"time":"1","entity":"a","state":0}\n'
    path.write_bytes(gzip.compress(head + record * 300_000))

    with pytest.raises(InputError, match=r"over 300 times as many.* --memory SIZE"):
        meantime.open(path)
    assert meantime.open(path, memory=100_000_000).metadata.title == "t"


def test_a_document_that_fits_is_not_refused() -> None:
    data = json.dumps([{"a": [1, 2, {"b": "c"}], "d": 1.5}] * 5000)

    check_json("x", data, None)
    check_json("x", data.encode(), None)


def test_the_limit_of_the_process_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = available_bytes()
    assert 0 < unlimited < 1 << 50

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, 1 << 20))

    assert available_bytes() == 0
