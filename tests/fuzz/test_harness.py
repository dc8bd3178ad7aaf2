"""That the fuzzer sees what it is there to see."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
import sanitized
from containers import mutated_history, mutated_packed
from corpus import FORMATS, input_of
from guided import Packing, seeds_of
from kernels import KERNELS, REFUSALS
from mutate import Words, mutated
from structures import flight_recording, protobuf, simpleperf, sqlite

import meantime

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent


def test_a_copy_of_the_sources_can_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    sanitized._copy_sources(tmp_path)

    done = subprocess.run(
        [sys.executable, "setup.py", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.strip() == meantime.__version__, done.stderr


def generator(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - it has to be repeatable


# What stands for an input is what the "reader" does with it, in a worker of its own.
PROGRAM = """
import os, signal, sys, time
sys.path.insert(0, {here!r})
import worker
from exercise import Used
from corpus import FORMATS
from worker import Limits, Trial, tries

held = []
def misbehave(path, **options):
    return Used(eval(path.read_text()))
def crash():
    os.kill(os.getpid(), signal.SIGSEGV)
def use_memory():
    held.append(bytearray(b"x") * 2**28)
def raised():
    raise KeyError("x")
worker.exercise = misbehave
def loop():
    while True:
        pass
texts = ["True", "False", "raised()", "crash()", "True", "loop()", "use_memory()", "True"]
trials = [Trial(FORMATS["csv"], str(n), {{"x": text.encode()}}) for n, text in enumerate(texts)]
for outcome in tries(trials, Limits(seconds=3, bytes=100 << 20)):
    print(outcome.trial.name, outcome.result)
"""


def test_each_failure_is_of_its_input_and_the_rest_continue() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(here=str(HERE))],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split("\n")[:-1] == [
        "0 accepted",
        "1 refused",
        "2 exception",
        "3 crash",
        "4 accepted",
        "5 hang",
        "6 memory",
        "7 accepted",
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_and_a_seed_name_one_input(name: str) -> None:
    kind = FORMATS[name]

    first = [input_of(kind, seed) for seed in range(20)]

    assert first == [input_of(kind, seed) for seed in range(20)]
    assert len({repr(files) for files in first}) > 10


def test_a_damaged_manifest_has_right_checksums() -> None:
    whole = FORMATS["mth"].samples()[0]
    seen = 0
    for seed in range(200):
        files = mutated_history(whole, generator(seed))
        if files.keys() == whole.keys() and files["manifest"] != whole["manifest"]:
            lines = files["manifest"].splitlines()
            seen += all(line[:8] == b"%08x" % zlib.crc32(line[9:]) for line in lines)
    assert seen > 20


def test_a_segment_is_damaged_behind_its_checksums() -> None:
    whole = next(files for files in FORMATS["mth"].samples() if "segments/000000.seg" in files)
    path = "segments/000000.seg"
    damaged = 0
    for seed in range(200):
        segment = mutated_history(whole, generator(seed)).get(path, b"")
        if segment[:8] == b"MTSEG\0\0\2" and segment[128:] != whole[path][128:]:
            damaged += segment[124:128] == zlib.crc32(segment[:124]).to_bytes(4, "little")
    assert damaged > 20


def test_a_packed_recording_is_damaged_within_its_compression() -> None:
    whole = FORMATS["mtrz"].samples()[0]
    inside = [mutated_packed(whole, generator(seed)) for seed in range(40)]
    ends = [next(iter(files.values()))[-8:] for files in inside]
    assert ends.count(b"mtrpack1") > 30


def test_damage_has_extremes_of_numbers() -> None:
    words = Words(text=True)
    wanted: list[Callable[[bytes], bool]] = [
        b'{"a": -9223372036854775808}'.__eq__,
        b'{"a": 1e400}'.__eq__,
        lambda data: len(data) > 5000 and b"[[[[" in data,
    ]
    for seed in range(3000):
        data = mutated(b'{"a": 123}', generator(seed), words)
        wanted = [is_seen for is_seen in wanted if not is_seen(data)]
        if not wanted:
            return
    pytest.fail(f"{len(wanted)} of them were not made")


def test_numbers_of_recordings_reach_their_records() -> None:
    seen = {
        json.dumps(sorted(name for name in files if files[name] != whole[name]))
        for whole in FORMATS["mtr"].samples()[:1]
        for seed in range(100)
        if (files := input_of(FORMATS["mtr"], seed)).keys() == whole.keys()
    }
    assert len(seen) >= 5


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("perfetto", protobuf),
        ("pprof", protobuf),
        ("simpleperf", simpleperf),
        ("jfr", flight_recording),
    ],
)
def test_a_change_of_what_is_said_keeps_the_lengths_right(
    name: str, damage: Callable[[bytes, Random], bytes]
) -> None:
    whole = [next(iter(files.values())) for files in FORMATS[name].samples()]
    chosen = [data for data in whole if len(data) < 4096][:4]

    damaged = {damage(data, generator(seed)) for data in chosen for seed in range(40)}

    read = 0
    for data in damaged:
        with contextlib.suppress(ValueError):  # a length that is wrong, or nothing left
            read += damage(data, generator(1)) is not None
    assert len(damaged) > 20 * len(chosen)
    assert read > 0.9 * len(damaged)


def test_a_changed_database_is_a_database() -> None:
    (whole,) = FORMATS["nsys"].samples()[0].values()
    damaged = {sqlite(whole, generator(seed)) for seed in range(30)}

    tables = []
    for data in damaged:
        with contextlib.closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(data)
            with contextlib.suppress(sqlite3.DatabaseError):  # a table's page may be another's
                tables += database.execute("SELECT name FROM sqlite_master").fetchall()

    assert len(damaged) > 15
    assert len(tables) > 100


@pytest.mark.parametrize("name", FORMATS)
def test_an_input_that_libfuzzer_keeps_has_the_same_files(name: str) -> None:
    kind = FORMATS[name]
    packing = Packing(kind)

    for files in seeds_of(kind):
        assert packing.unpacked(packing.packed(files)) == files


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_read_or_refuse_samples_and_damaged_ones(name: str) -> None:
    kernel = KERNELS[name]
    kinds = [FORMATS[each] for each in kernel.formats]
    inputs = [data for kind in kinds for files in kind.samples()[:8] for data in files.values()]
    inputs += [
        data for kind in kinds for seed in range(20) for data in input_of(kind, seed).values()
    ]

    read = 0
    for data in (*inputs, b""):
        with contextlib.suppress(*REFUSALS):
            kernel.read(data)
            read += 1

    assert read
