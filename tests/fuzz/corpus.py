"""The formats that are fuzzed, and of each the sound inputs that are damaged.

Each declared format is one: by what is listed here, or else by the example of its declaration.
They are the project's small samples and what is generated here, so they are the same everywhere:
a format and a seed name an input for good. More of them can be added from a folder.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import lzma
import re
import sqlite3
import struct
import tarfile
import tempfile
import zlib
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import zstd_frames
from containers import mutated_history, mutated_packed, mutated_recording
from ctf_traces import metadata_packets, mutated_trace, perf_trace, trace
from mutate import Words, mutated
from perf_files import PerfFile
from structures import (
    arrow,
    flight_recording,
    json_text,
    otlp,
    protobuf,
    simpleperf,
    sqlite,
)
from trace_files import FUNCTION, GRAPH, GRAPH_END, PRINT, TraceFile

import meantime
from meantime.errors import MeantimeError
from meantime.history.store import Store
from meantime.readers import recognise
from meantime.readers.formats import FORMATS as DECLARED
from meantime.readers.recording.packing import pack
from meantime.readers.source import open_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from containers import Files

    from meantime.readers.formats import Format as DeclaredFormat

__all__ = ["FORMATS", "Format", "input_of"]

_ROOT = Path(__file__).resolve().parents[2]
_SAMPLES, _EXAMPLES = _ROOT / "tests" / "samples", _ROOT / "examples"
_LARGEST_BYTES = 1 << 16
_SMALL_BYTES = 1 << 12


@dataclass(frozen=True, slots=True)
class Format:
    """A format that is fuzzed.

    Attributes:
        name: What it is called here.
        samples: Sound inputs: the files of each by name, one or a directory's.
        tokens: Pieces of text or bytes that mean something in it.
        text: Whether its numbers are digits.
        reader: What its reader calls it; samples of that format are taken from other folders.
        provider: What makes states of its events, if anything.
        damage: Damages an input of several files, or of checksums; None is any file.
        structure: Damages what a file says and keeps it a file of the format, as far as it can; it
            is used as often as damage to any bytes.
        mended: Makes checksums right again after any damage.
        is_directory: Whether an input is a directory.
        opened: Of a directory, the file that is opened; None is the directory.
    """

    name: str
    samples: Callable[[], list[Files]]
    tokens: tuple[bytes, ...] = ()
    text: bool = True
    reader: str | None = None
    provider: Path | None = None
    damage: Callable[[Files, Random], Files] | None = None
    structure: Callable[[bytes, Random], bytes] | None = None
    mended: Callable[[Files], Files] | None = None
    is_directory: bool = False
    opened: str | None = None
    added: list[Files] = field(default_factory=list)

    def damaged(self, files: Files, random: Random) -> Files:
        """Return an input with damage to it."""
        if self.damage is not None:
            for _ in range(random.choice((1, 1, 1, 2, 3))):
                with contextlib.suppress(*_UNDAMAGEABLE):
                    files = self.damage(files, random)
            return files
        ((name, data),) = files.items()
        structure = self.structure or (json_text if b'"' in self.tokens else None)
        if structure is not None and random.random() < 0.5:
            with contextlib.suppress(*_UNDAMAGEABLE):
                return {name: structure(data, random)}
        others = [next(iter(other.values())) for other in self.samples() + self.added]
        return {name: mutated(data, random, Words(self.tokens, others, text=self.text))}

    def add_from(self, folder: Path) -> None:
        """Take samples of this format from a folder, the beginnings of larger ones."""
        if self.reader is None:
            return
        for path in sorted(folder.rglob("*")):
            if path.is_file() and (data := _beginning(path, self.reader)):
                self.added.append({path.name.removesuffix(".gz").removesuffix(".zst"): data})


def _beginning(path: Path, reader: str) -> bytes | None:
    try:
        with open_source(path) as source:
            if reader == recognise(source).reader.FORMAT:
                return source.head()[:_LARGEST_BYTES]
    except (MeantimeError, OSError):
        pass
    return None


def input_of(kind: Format, seed: int) -> Files:
    """Return the input that a format and a seed name."""
    random = Random(f"{kind.name}:{seed}")  # noqa: S311 - it has to be repeatable
    samples = kind.samples() + kind.added
    # a small input is tried in a fraction of the time, and rarely shows less
    small = [files for files in samples if sum(map(len, files.values())) <= _SMALL_BYTES]
    chosen = random.choice(small if small and random.random() < 0.8 else samples)
    return kind.damaged(chosen, random)


# what a second round of damage meets, where the first one left no structure to find a place in
_UNDAMAGEABLE = (
    ValueError, TypeError, KeyError, IndexError, RecursionError, struct.error, zstd_frames.Damaged,
    sqlite3.Error, MemoryError,
)  # fmt: skip


def _read(*paths: Path) -> list[Files]:
    """Return samples from files, decompressed, of long ones the beginning."""
    found: list[Files] = []
    for path in paths:
        with open_source(path) as source:
            found.append({path.name.removesuffix(".gz"): source.head()[:_LARGEST_BYTES]})
    return found


@cache
def _ctf_packets() -> list[Files]:
    packed = {**trace("be"), "metadata": metadata_packets(trace("be")["metadata"])}
    return [trace(), trace("be", frequency=3_293_841_647), packed, perf_trace()]


@cache
def _statemap() -> list[Files]:
    short = b"".join(
        [
            b'{"start":[100,5],"title":"t","host":"h","entityKind":"CPU","states":',
            b'{"idle":{"value":0,"color":"#eeeeee"},"busy":{"value":1}}}\n',
            b'{"entity":"a","description":"first"}\n{"state":0,"tag":"x","pid":7}\n',
            *(b'{"time":"%d","entity":"a","state":%d}\n' % (10 * n, n % 2) for n in range(8)),
            b'{"time":"15","entity":"b","state":1,"tag":"x"}\n',
            b'{"time":"75","entity":"b","event":"ev","target":"a"}\n',
        ]
    )
    return [
        {"short.statemap": short},
        *_read(*sorted((_SAMPLES / "statemap").glob("*.in")), _EXAMPLES / "postgres.statemap.gz"),
    ]


@cache
def _chrome() -> list[Files]:
    phases: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "p"}},
        {"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": 2, "args": {"sort_index": 3}},
        {"ph": "B", "name": "a", "cat": "c", "pid": 1, "tid": 2, "ts": 1.5, "args": {"x": [1]}},
        {"ph": "X", "name": "b", "pid": 1, "tid": 2, "ts": 2, "dur": 3.25, "cname": "good"},
        {"ph": "E", "pid": 1, "tid": 2, "ts": 9},
        {"ph": "i", "name": "i", "pid": 1, "tid": 2, "ts": 4, "s": "g"},
        {"ph": "C", "name": "n", "pid": 1, "ts": 4, "args": {"v": 1, "w": -2.5}},
        {"ph": "b", "name": "as", "cat": "c", "id": "0x1", "pid": 1, "tid": 2, "ts": 1},
        {"ph": "n", "name": "as", "cat": "c", "id": "0x1", "pid": 1, "tid": 2, "ts": 2},
        {"ph": "e", "name": "as", "cat": "c", "id": "0x1", "pid": 1, "tid": 2, "ts": 5},
        {"ph": "s", "name": "f", "cat": "c", "id": 1, "pid": 1, "tid": 2, "ts": 2},
        {"ph": "f", "name": "f", "cat": "c", "id": 1, "pid": 1, "tid": 3, "ts": 6, "bp": "e"},
        {"ph": "N", "name": "ob", "id": "0x2", "pid": 1, "tid": 2, "ts": 1},
        {"ph": "O", "name": "ob", "id": "0x2", "pid": 1, "tid": 2, "ts": 2, "args": {}},
        {"ph": "D", "name": "ob", "id": "0x2", "pid": 1, "tid": 2, "ts": 3},
        {"ph": "P", "name": "s", "pid": 1, "tid": 2, "ts": 3, "sf": 5},
        {"ph": "R", "name": "mark", "pid": 1, "tid": 2, "ts": 3},
    ]
    frames = {"5": {"name": "leaf", "parent": "4"}, "4": {"name": "root"}}
    program = {"traceEvents": phases, "stackFrames": frames, "displayTimeUnit": "ns"}
    profile = {
        "ph": "ProfileChunk", "name": "ProfileChunk", "id": "0x3", "pid": 1, "tid": 2, "ts": 5,
        "args": {"data": {
            "cpuProfile": {
                "nodes": [
                    {"id": 1, "callFrame": {"functionName": "(root)"}},
                    {"id": 2, "parent": 1, "callFrame": {"functionName": "f", "url": "u"}},
                ],
                "samples": [1, 2, 2],
            },
            "timeDeltas": [0, 10, 20],
        }},
    }  # fmt: skip
    begin = {**profile, "ph": "P", "name": "Profile", "args": {"data": {"startTime": 1}}}
    kernel = (
        "# tracer: nop\n#\n#         TASK-PID   CPU#  ||||    TIMESTAMP  FUNCTION\n#\n"
        "  p-2  [000] d..3  0.000003: sched_switch: prev_comm=p prev_pid=2 prev_prio=120"
        " prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120\n"
        "  p-2  [000] d..3  0.000005: tracing_mark_write: B|1|draw\n"
        "  p-2  [000] d..3  0.000006: tracing_mark_write: trace_event_clock_sync: parent_ts=9.5\n"
        "  p-2  [000] d..3  0.000007: tracing_mark_write: trace_event_clock_sync: name=sync\n"
    )
    sync = {"ph": "c", "name": "clock_sync", "ts": 9, "args": {"sync_id": "sync", "issue_ts": 1}}
    system = {"traceEvents": [*phases[:6], sync], "systemTraceEvents": kernel}
    return [
        {"phases.json": json.dumps(phases).encode()},
        {"program.json": json.dumps(program).encode()},
        {"system.json": json.dumps(system).encode()},
        {"profile.json": json.dumps([begin, {**profile, "ph": "P"}], indent=1).encode()},
        *_read(*sorted((_SAMPLES / "chrome").glob("*.json*"))),
    ]


@cache
def _spall() -> list[Files]:
    def header(version: int, magic: int = 0x0BADF00D) -> bytes:
        return struct.pack("<QQdQ", magic, version, 1.5, 0)

    def begin0(time: float, name: bytes) -> bytes:
        return struct.pack("<BIIdB", 3, 1, 2, time, len(name)) + name

    def begin1(time: float, name: bytes, arguments: bytes) -> bytes:
        sizes = struct.pack("<BBIIdBB", 3, 0, 1, 2, time, len(name), len(arguments))
        return sizes + name + arguments

    def end(time: float) -> bytes:
        return struct.pack("<BIId", 4, 1, 2, time)

    def begin3(time: int, name: bytes, arguments: bytes = b"") -> bytes:
        return struct.pack("<BQBB", 3, time, len(name), len(arguments)) + name + arguments

    def end3(time: int) -> bytes:
        return struct.pack("<BQ", 4, time)

    def buffer3(tid: int, *records: bytes) -> bytes:
        body = b"".join(records)
        return struct.pack("<IIIQ", len(body), tid, 1, 0) + body

    complete0 = struct.pack("<BIIddB", 2, 1, 2, 2.5, 1.0, 1) + b"c"
    automatic = header(3, 0xABADF00D) + struct.pack("<H", 0)
    events = struct.pack("<BB", 0x00, 1) + struct.pack("<QQ", 0x401000, 0x402000) + b"\x80\x05"
    return [
        {"v0.spall": header(0) + begin0(1, b"a") + begin0(2, b"b") + complete0 + end(3) + end(9)},
        {
            "v1.spall": header(1) + begin1(1, b"a", b"x=1") + begin1(2, b"b" * 200, b"") + end(3)
            + end(9)
        },
        {
            "v3.spall": header(3) + buffer3(2, begin3(1, b"a", b"{}"), begin3(2, b"b"), end3(5))
            + buffer3(3, begin3(2, b"c"), end3(7)) + buffer3(2, end3(9))
        },
        {"auto.spall": automatic + struct.pack("<IIIQ", len(events), 2, 1, 0) + events},
    ]  # fmt: skip


@cache
def _speedscope() -> list[Files]:
    shared = {"frames": [{"name": "main", "file": "a.c", "line": 3}, {"name": "work"}]}
    events = [("O", 0, 0), ("O", 1, 1.5), ("C", 1, 2.001), ("C", 0, 9)]
    common = {"name": "t", "unit": "microseconds", "startValue": 0, "endValue": 9}
    listed = [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events]
    evented = {**common, "type": "evented", "events": listed}
    sampled = {**common, "type": "sampled", "samples": [[0], [0, 1], []], "weights": [1, 2.5, 3]}
    schema = "https://www.speedscope.app/file-format-schema.json"
    document = {"$schema": schema, "shared": shared, "profiles": [evented, sampled]}
    return [
        {"both.json": json.dumps(document).encode()},
        {"evented.json": json.dumps({**document, "profiles": [evented]}, indent=1).encode()},
    ]


@cache
def _cpuprofile() -> list[Files]:
    frame = {"functionName": "f", "scriptId": "1", "url": "u.js", "lineNumber": 3}
    nodes: list[dict[str, Any]] = [
        {"id": 1, "callFrame": {"functionName": "(root)"}, "children": [2, 3]},
        {"id": 2, "callFrame": frame, "hitCount": 2, "children": [4]},
        {"id": 3, "callFrame": {"functionName": "(idle)"}},
        {"id": 4, "callFrame": {"functionName": ""}},
    ]
    profile = {
        "nodes": nodes,
        "startTime": 1000,
        "endTime": 2000,
        "samples": [2, 3, 2, 4],
        "timeDeltas": [0, 100, 250, -5],
    }
    parents = [{"id": each["id"], "callFrame": each["callFrame"], "parent": 1} for each in nodes]
    return [
        {"children.cpuprofile": json.dumps(profile).encode()},
        {"parents.cpuprofile": json.dumps({**profile, "nodes": parents}).encode()},
    ]


@cache
def _small_profiles(name: str) -> list[Files]:
    """Return the samples of a profiler of which there is one file or two."""
    return [
        each for path in sorted((_SAMPLES / "profiles").glob(f"{name}*")) for each in _read(path)
    ]


def _stackprof() -> list[Files]:
    raw = [2, 1, 2, 2, 1, 1, 3]
    profile = {
        "version": 1.2, "mode": "cpu", "interval": 1000, "samples": 5, "gc_samples": 0,
        "frames": {"1": {"name": "main", "line": 1}, "2": {"file": "a.rb"}}, "raw": raw,
        "raw_timestamp_deltas": [10, 1000, 1000, 1000, 1000],
    }  # fmt: skip
    return [{"cpu.json": json.dumps(profile).encode()}, *_small_profiles("stackprof-object")]


def _safari() -> list[Files]:
    recording = {
        "displayName": "r", "startTime": 1.5, "endTime": 2, "instrumentTypes": [],
        "records": [
            {"type": "timeline-record-type-layout", "startTime": 1.6, "endTime": 1.7},
            {"type": "timeline-record-type-cpu", "timestamp": 1.6, "usage": 0},
        ],
        "sampleStackTraces": [
            {"timestamp": 1.55, "stackFrames": [{"name": "f"}, {"name": ""}]},
        ],
        "sampleDurations": [0.001],
    }  # fmt: skip
    document = {"version": 1, "recording": recording}
    return [{"one.json": json.dumps(document).encode()}, *_small_profiles("safari")]


def _heapprofile() -> list[Files]:
    leaf = {"callFrame": {"functionName": "f"}, "selfSize": 8, "children": []}
    head = {"callFrame": {"functionName": "(root)"}, "selfSize": 0, "children": [leaf, leaf]}
    return [{"two.heapprofile": json.dumps({"head": head}).encode()}]


def _instruments() -> list[Files]:
    text = "Weight\tSelf Weight\t\tSymbol Names\n"
    for weight, own, symbol in (
        ("3.00 Mc  100.0%", "0 c", "main  (1)"), ("2.00 Mc   66.6%", "2.00 Mc", " f"),
        ("1.00 Mc   33.3%", "1.00 Mc", " g"),
    ):  # fmt: skip
        text += f"{weight}\t{own}\t \t{symbol}\n"
    return [{"cycles.txt": text.encode()}, *_small_profiles("instruments")]


def _art() -> list[Files]:
    text = b"*version\n3\nclock=dual\npid=7\n*threads\n7\tmain\n*methods\n0x4\ta.B\tf\t()V\n*end\n"
    header = struct.pack("<4sHHQH14x", b"SLOW", 3, 32, 5, 14)
    rows = [(7, 4, 0, 0), (7, 8, 1, 2), (7, 9, 3, 4), (7, 5, 5, 6), (8, 4, 0, 3), (8, 9, 0, 4)]
    records = b"".join(struct.pack("<HIII", *row) for row in rows)
    first = text.replace(b"3\nclock=dual", b"1\nclock=wall")
    short = b"".join(struct.pack("<BII", tid, method, wall) for tid, method, _, wall in rows)
    described = [
        struct.pack("<HBH", 0, 1, len(line)) + line for line in (b"0x4\ta.B\tf\n", b"0x8\tg\n")
    ]
    described.append(struct.pack("<HBHH", 0, 2, 7, 4) + b"main")
    parts = [*described, records, struct.pack("<HBI", 0, 3, len(text)) + text]
    streamed = struct.pack("<4sHHQH14x", b"SLOW", 0xF3, 32, 5, 14) + b"".join(parts)
    return [
        {"dual.trace": text + header + records},
        {"streamed.trace": streamed},
        {"first.trace": first + struct.pack("<4sHHQ", b"SLOW", 1, 16, 5) + short},
    ]


def _go_trace() -> list[Files]:
    def event(kind: int, *arguments: int) -> bytes:
        numbers = bytes(arguments)
        if len(numbers) < 4:
            return bytes([kind | len(numbers) - 1 << 6]) + numbers
        return bytes([kind | 3 << 6, len(numbers)]) + numbers

    parts = [
        b"go 1.19 trace\0\0\0", event(1, 0, 10), event(4, 1, 2, 0), event(13, 1, 7, 1, 0),
        event(14, 2, 7, 1), event(47, 1, 0, 0, 2, 0), event(48, 1, 0, 2, 0), b"\2hi",
        event(28, 1, 0), event(30, 1), event(40, 9, 7, 20), event(38, 1, 7),
        event(47, 1, 0, 1, 2, 0), event(21, 1, 8, 1, 0), event(27, 2, 0), event(1, 1, 12),
        event(7, 1, 1, 0), event(33, 1, 100), event(8, 3), event(49, 1, 14, 0, 7, 1),
        event(3, 1, 2, 64, 3, 0, 5, 65, 4, 0, 6),
        *(bytes([37, id_, len(name)]) + name for id_, name in ((2, b"r"), (3, b"f"), (4, b"main"))),
        event(2, 100),
    ]  # fmt: skip
    return [{"small.trace": b"".join(parts)}]


def _perf_data() -> list[Files]:
    both: Files = {}
    for name, order in (("little", "<"), ("big", ">")):
        file = PerfFile(order)
        file.event(1, 0, name="cpu-clock", clock=1)
        file.event(2, 300, name="sched:sched_switch", sample_type=file.sample_type | 1024)
        file.event(2, 301, name="odd:odd", sample_type=file.sample_type | 1024 | 32)
        file.name(7, 7, "app")
        file.map(7, 0x1000, 0x3000, "/bin/app")
        file.map(7, 0x2000, 0x1000, "//anon")
        file.map(-1, 0xFFFF000000000000, 0x10000, "[kernel.kallsyms]_text", misc=1)
        file.sample(0, 2_000, 7, 7, ip=0x1010)
        file.round()
        file.sample(0, 1_000, 7, 8, ip=0x2010)
        file.fork(9, 7, 1_500)
        file.record(2, file.pack("QQ", 100, 3) + file.identified(0, 0, 2_500))
        file.switch(1, 3_000, (7, "app", 1), (0, "swapper/0"))
        file.round()
        raw = file.pack("HBBi", 301, 8, 0, 7) + b"\1\0\xff\xff" + bytes(4) + b"\xff" * 8
        raw += (
            file.pack("I", 4 << 16 | 40) + bytes(8) + file.pack("I", 3 << 16 | 4) + b"any\0no\0\0"
        )
        chain = (2**64 - 512, 0x1010, 2**64 - 128, 0xFFFF000000000010, 5)
        file.sample(2, 4_000, 9, 9, raw=raw, chain=chain)
        file.described()
        both[f"{name}.data"] = file.built()
        both[f"{name}-pipe.data"] = file.piped()
        inner = b"".join(file.records)
        file.packed(zstd_frames.compress(inner))
        both[f"{name}-packed.data"] = file.built()
    return [{name: data} for name, data in both.items()]


def _trace_dat() -> list[Files]:
    both: Files = {}
    for name, order in (("little", "<"), ("big", ">")):
        file = TraceFile(order)
        file.switch(0, 1_000, (0, "swapper/0"), (7, "app"))
        file.switch(1, 1_000, (0, "swapper/1"), (9, "new"))
        addresses = file.pack("QQ", 0x1010, 0xFFFFFFFF81000005)
        file.event(0, 2_000, FUNCTION, addresses)
        file.event(1, 2_500, PRINT, bytes(8) + b"B|9|mark\n\0", 9)
        file.event(1, 2_600, PRINT, bytes(8) + b"E|9\n\0" + bytes(120), 9)
        file.raw(1, file.pack("II", 29 << 27 | 5 if order == ">" else 5 << 5 | 29, 4))
        file.event(0, 3_000, GRAPH, addresses)
        file.event(0, 1 << 28, GRAPH_END, addresses)
        file.end_page(0)
        file.switch(0, 1 << 29, (7, "app"), (0, "swapper/0"))
        file.end_page(0, 1 << 31)
        both[f"{name}-instance.dat"] = file.version_6(in_instance=True)
        both[f"{name}-6.dat"] = file.version_6()
        for compression in ("none", "zstd", "zlib"):
            both[f"{name}-{compression}.dat"] = file.version_7(compression)
    return [{name: data} for name, data in both.items()]


def _simpleperf() -> list[Files]:
    chain = _field(3, _field(1, 64) + _field(2, 1) + _field(3, 0))
    unknown = _field(3, _field(1, 64) + _field(2, 9) + b"\x18" + b"\xff" * 9 + b"\x01")
    samples = [
        _field(1, _field(1, 100) + _field(2, 7) + chain + unknown + _field(4, 9) + _field(5, 0)),
        _field(1, _field(1, 90) + _field(2, 8) + chain + _field(4, 5)),
    ]
    described = [
        _field(2, _field(1, 2) + _field(2, 3)),
        _field(3, _field(1, 1) + _field(2, b"/lib/a.so") + _field(3, b"f")),
        _field(4, _field(1, 7) + _field(2, 7) + _field(3, b"main")),
        _field(5, _field(1, b"cpu-clock:u") + _field(2, b"app")),
        _field(6, _field(1, 1) + _field(2, 80) + _field(3, 7)),
        _field(6, _field(2, 110) + _field(3, 7)),
    ]
    records = b"".join(struct.pack("<I", len(each)) + each for each in samples + described)
    return [{"two.trace": b"SIMPLEPERF" + struct.pack("<H", 1) + records + bytes(4)}]


@cache
def _otlp() -> list[Files]:
    def attribute(key: str, value: dict[str, Any]) -> dict[str, Any]:
        return {"key": key, "value": value}

    span = {
        "traceId": "5B8EFFF798038103D269B633813FC60C",
        "spanId": "EEE19B7EC3C1B174",
        "name": "a",
        "kind": 2,
        "startTimeUnixNano": "1544712660000000000",
        "endTimeUnixNano": 1544712661000000000,
        "attributes": [
            attribute("n", {"arrayValue": {"values": [{"intValue": "1"}, {"doubleValue": "NaN"}]}}),
            attribute("process.command_line", {"stringValue": "secret"}),
        ],
        "events": [{"timeUnixNano": "1544712660500000000", "name": "exception"}],
        "status": {"code": "STATUS_CODE_ERROR", "message": "m"},
        "droppedEventsCount": 1,
    }
    child = {
        **span,
        "spanId": "AAAAAABkfZg=",
        "parentSpanId": "eee19b7ec3c1b174",
        "kind": 3,
        "links": [{"traceId": span["traceId"], "spanId": span["spanId"]}],
        "events": [],
    }
    service = {"attributes": [attribute("service.name", {"stringValue": "s"})]}
    group = {"resource": service, "scopeSpans": [{"scope": {"name": "l"}, "spans": [span, child]}]}
    log = {
        "timeUnixNano": "1544712660300000000",
        "body": {"stringValue": "b"},
        **{key: span[key] for key in ("traceId", "spanId")},
    }
    logs = {"resource": service, "scopeLogs": [{"logRecords": [log]}]}
    lines = [{"resourceSpans": [group]}, {"resourceLogs": [logs]}, {"resourceMetrics": []}]
    message = _message(
        1,
        _message(1, _message(1, _message(1, b"service.name") + _message(2, _message(1, b"s"))))
        + _message(
            2,
            _message(
                2,
                _message(1, bytes(range(16)))
                + _message(2, bytes(range(8)))
                + _message(5, b"a")
                + b"\x30\x02\x39"
                + struct.pack("<Q", 10**18)
                + b"\x41"
                + struct.pack("<Q", 10**18 + 5)
                + _message(9, _message(1, b"n") + _message(2, b"\x18\x07"))
                + _message(9, _message(1, b"l") + _message(2, _message(5, _message(1, b"\x10\1"))))
                + _message(11, b"\x09" + struct.pack("<Q", 10**18 + 1) + _message(2, b"e"))
                + _message(13, _message(1, bytes(range(16))) + _message(2, bytes(range(8))))
                + _message(15, _message(2, b"m") + b"\x18\x02"),
            ),
        ),
    )
    delimited = struct.pack(">I", len(message)) + message
    packed = zstd_frames.compress(message)
    return [
        {"one.json": json.dumps(lines[0], indent=1).encode()},
        {"lines.jsonl": b"".join(json.dumps(line).encode() + b"\n" for line in lines)},
        {"message.pb": message},
        {"messages.bin": delimited + delimited},
        {"compressed.bin": struct.pack(">I", len(packed)) + packed},
        *_read(_SAMPLES / "services" / "example.otlp.json"),
    ]  # fmt: skip


def _message(number: int, content: bytes) -> bytes:
    """Return a field of protobuf with up to 16,383 bytes."""

    def varint(value: int) -> bytes:
        return bytes([value]) if value < 128 else bytes([value & 127 | 128, value >> 7])

    return varint(number << 3 | 2) + varint(len(content)) + content


@cache
def _perfetto() -> list[Files]:
    archive = (_SAMPLES / "perfetto" / "diff-tests.tar.zst").read_bytes()
    data = zstd_frames.decompress(archive)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = [
            {Path(each.name).name: file.read()}
            for each in tar.getmembers()
            if (file := tar.extractfile(each)) is not None
        ]
    # packets of all kinds of times: of a clock of the sequence that counts from the packet before,
    # and all of it compressed
    clock = _message(1, b"\x08\x40\x10\x07\x18\x01\x20\xe8\x07") + _message(1, b"\x08\x06\x10\x09")
    begin = b"\x40\x05\x50\x07" + _message(11, b"\x48\x01\x58\x09" + _message(23, b"x"))
    end = b"\x40\x05\x50\x07" + _message(11, b"\x48\x02\x58\x09")
    packets = _message(1, b"\x50\x07\x68\x01" + _message(6, clock) + _message(59, b"\xd0\x03\x40"))
    packets += _message(1, begin) + _message(1, end)
    packed = _message(1, _message(50, zlib.compress(packets)))
    return [{"packed.pftrace": packed + packets}, *found]


@cache
def _jaeger() -> list[Files]:
    return _read(*sorted((_SAMPLES / "services").glob("*.jaeger.json")))


@cache
def _zipkin() -> list[Files]:
    return _read(*sorted((_SAMPLES / "services").glob("*.zipkin.json")))


@cache
def _folded() -> list[Files]:
    text = b"main;a 5\nmain;a;b 7\nmain;c_[k] 1.5\nswapper;do idle;x 100\n" * 3
    return [{"stacks.folded": text}, {"stacks.txt": text}, {"one.folded": b"a 1\n"}]


_STACK = "\tffffffff8158e3e1 next_page+0xc1 ([kernel.kallsyms])\n\t  7f41 main+0x2 (/usr/bin/p)\n\n"


_NSYS = """
PRAGMA page_size = 512;
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
INSERT INTO StringIds VALUES
    (1, 'cudaLaunchKernel_v7000'), (2, 'gemm'), (3, 'main'), (4, 'libx.so');
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES
    (10, 20, 117440520, 1, 1), (30, 35, 117440520, 2, 1);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL
    (start, end, deviceId, contextId, streamId, correlationId, globalPid, shortName);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
    (15, 40, 0, 1, 7, 1, 117440512, 2), (50, 60, 0, 1, 7, 3, 117440512, 2);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY
    (start, end, deviceId, contextId, streamId, correlationId, globalPid, bytes, copyKind);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (38, 45, 0, 1, 7, 2, 117440512, 64, 1);
CREATE TABLE NVTX_EVENTS (start, end, eventType, text, globalTid, textId, domainId);
INSERT INTO NVTX_EVENTS VALUES
    (5, 50, 59, 'step', 117440520, NULL, 0), (7, NULL, 60, NULL, 117440520, 3, 4),
    (8, NULL, 34, 'mark', 117440520, NULL, 0), (1, NULL, 75, 'mine', 117440520, NULL, 4);
CREATE TABLE SCHED_EVENTS (start, cpu, isSchedIn, globalTid);
INSERT INTO SCHED_EVENTS VALUES (4, 1, 1, 117440520), (44, 1, 0, 117440520);
CREATE TABLE COMPOSITE_EVENTS (id INTEGER PRIMARY KEY, start, cpu, globalTid, cpuCycles);
INSERT INTO COMPOSITE_EVENTS VALUES (1, 12, 1, 117440520, 5);
CREATE TABLE SAMPLING_CALLCHAINS (id, symbol, module, stackDepth);
INSERT INTO SAMPLING_CALLCHAINS VALUES (1, 9, 4, 0), (1, 3, 4, 1);
"""


def _leb(value: int) -> bytes:
    """Return an integer as flight recordings write it: 7 bits a byte, of the ninth all."""
    found = bytearray()
    while value > 127 and len(found) < 8:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


# Of a flight recording: the types by number, with name, type, "pool" or "array" of each field.
_JFR_TYPES: dict[int, tuple[str, list[tuple[str, int, str]]]] = {
    2: ("long", []),
    3: ("boolean", []),
    4: ("float", []),
    5: ("java.lang.String", []),
    20: ("java.lang.Thread", [("osThreadId", 2, ""), ("javaName", 5, "")]),
    21: ("jdk.types.StackTrace", [("truncated", 3, ""), ("frames", 22, "array")]),
    22: ("jdk.types.StackFrame", [("method", 23, "pool")]),
    23: ("jdk.types.Method", [("type", 24, "pool"), ("name", 25, "pool")]),
    24: ("java.lang.Class", [("name", 25, "pool")]),
    25: ("jdk.types.Symbol", [("string", 5, "")]),
    26: ("jdk.types.ThreadState", [("name", 5, "")]),
    40: (
        "jdk.ExecutionSample",
        [("startTime", 2, ""), ("sampledThread", 20, "pool"), ("stackTrace", 21, "pool"),
         ("state", 26, "pool")],
    ),
    41: (
        "jdk.JavaMonitorEnter",
        [("startTime", 2, ""), ("duration", 2, ""), ("eventThread", 20, "pool"),
         ("stackTrace", 21, "pool"), ("monitorClass", 24, "pool"), ("previousOwner", 20, "pool")],
    ),
    42: ("jdk.GarbageCollection", [("startTime", 2, ""), ("duration", 2, ""), ("name", 5, "")]),
    43: ("jdk.CPULoad", [("startTime", 2, ""), ("jvmUser", 4, "")]),
    44: ("jdk.InitialEnvironmentVariable", [("startTime", 2, ""), ("key", 5, "")]),
    45: ("app.Request", [("startTime", 2, ""), ("eventThread", 20, "pool"), ("path", 5, "")]),
}  # fmt: skip


def jfr_chunk(start_ticks: int = 1000, *, is_finished: bool = True) -> bytes:
    """Return a chunk of a flight recording, at 1 tick a nanosecond."""

    def event(type_: int, *contents: bytes) -> bytes:
        body = _leb(type_) + b"".join(contents)
        return _leb(len(body) + (1 if len(body) < 127 else 2)) + body

    def text(value: str) -> bytes:
        return b"\x03" + _leb(len(value)) + value.encode()

    strings: list[str] = []

    def number(value: str) -> bytes:
        if value not in strings:
            strings.append(value)
        return _leb(strings.index(value))

    def element(name: str, attributes: dict[str, str], *children: bytes) -> bytes:
        pairs = b"".join(number(key) + number(value) for key, value in attributes.items())
        head = number(name) + _leb(len(attributes)) + pairs
        return head + _leb(len(children)) + b"".join(children)

    classes = []
    for id_, (name, fields) in _JFR_TYPES.items():
        of = []
        for field_name, type_, how in fields:
            own = {"name": field_name, "class": str(type_)}
            own |= {"pool": {"constantPool": "true"}, "array": {"dimension": "1"}}.get(how, {})
            of.append(element("field", own))
        classes.append(element("class", {"name": name, "id": str(id_)}, *of))
    root = element("root", {}, element("metadata", {}, *classes))
    described = b"".join([_leb(len(strings)), *map(text, strings)]) + root
    metadata = event(0, b"\1\0\1", described)
    pools = {
        20: {1: _leb(7) + text("main"), 2: _leb(8) + text("worker")},
        21: {1: b"\0" + _leb(2) + _leb(2) + _leb(1)},
        23: {1: _leb(1) + _leb(1), 2: _leb(1) + _leb(2)},
        24: {1: _leb(3)},
        25: {1: text("run"), 2: text("work"), 3: text("app/Main")},
        26: {1: text("STATE_RUNNABLE")},
    }
    pool = b"".join(
        _leb(type_) + _leb(len(values)) + b"".join(_leb(key) + each for key, each in values.items())
        for type_, values in pools.items()
    )
    checkpoint = event(1, b"\0\0\0\0", _leb(len(pools)), pool)
    at = [_leb(start_ticks + 100 * n) for n in range(6)]
    events = [
        event(40, at[0], b"\1\1\1"),
        event(41, at[1], _leb(50), b"\2\1\1\1"),
        event(42, at[2], _leb(20), text("G1New")),
        event(43, at[3], struct.pack(">f", 0.5)),
        event(44, at[4], text("SECRET")),
        event(45, at[5], b"\1", text("/x")),
    ]
    contents = metadata + checkpoint + b"".join(events)
    header = struct.pack(
        ">4sHHqqqqqqqI", b"FLR\0", 2, 1, 68 + len(contents) if is_finished else 0, 0, 0,
        1_700_000_000_000_000_000, 1000, start_ticks, 10**9, 1,
    )  # fmt: skip
    return header + contents


@cache
def _jfr() -> list[Files]:
    return [{"one.jfr": jfr_chunk()}, {"two.jfr": jfr_chunk() + jfr_chunk(5000, is_finished=False)}]


@cache
def _nsys() -> list[Files]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "small.sqlite")
        connection = sqlite3.connect(path)
        connection.executescript(_NSYS)
        connection.close()
        return [{"small.sqlite": path.read_bytes()}]


@cache
def _strace() -> list[Files]:
    lines = [
        '7 100000000.1 execve("/bin/sh", ["sh"], 0x7ffd /* 3 vars */) = 0 <0.000412>',
        "7 100000000.2 clone(child_stack=NULL, flags=CLONE_THREAD|SIGCHLD <unfinished ...>",
        '8 100000000.3 write(1, "a) = 3\\n", 7) = -1 EAGAIN (Resource unavailable) <0.1>',
        "7 100000000.4 <... clone resumed>) = 8 <0.000010>",
        "7 100000000.5 tgkill(7, 8, SIGTERM) = 0 <0.000001>",
        "8 100000000.6 --- SIGTERM {si_signo=SIGTERM, si_code=SI_TKILL, si_pid=7} ---",
        "8 100000000.7 +++ killed by SIGTERM +++",
        "7 100000000.8 wait4(8, NULL, 0, NULL) = 8 <0.01>",
        "7 100000000.9 --- SIGCHLD {si_signo=SIGCHLD, si_pid=8} ---",
        "7 100000001.0 exit(0) = ?",
        "7 100000001.1 +++ exited with 0 +++",
    ]
    text = "".join(line + "\n" for line in lines).encode()
    alone = text.replace(b"\n7 ", b"\n")[2:]
    return [
        {"calls.txt": text},
        {
            "of-day.txt": text.replace(b"100000000.", b"23:59:59.").replace(
                b"100000001.", b"00:00:00."
            )
        },
        {"relative.txt": text.replace(b"100000000.", b"     0.0000").replace(b" <0.000", b" <0.1")},
        {"terminal.txt": alone.replace(b"|SIGCHLD <", b"strace: Process 8 attached\n <")},
        *_read(_SAMPLES / "strace" / "attach.txt"),
    ]


@cache
def _ftrace() -> list[Files]:
    marks = ["B|5|draw", "E|5", "S|5|load|9", "F|5|load|9", "C|5|heap|12", "I|5|now"]
    lines = [f"  ui-7 ( 5) [000] ...1 1.00010{i}: 0: {mark}\n" for i, mark in enumerate(marks)]
    lines.append("CPU:0 [LOST 12 EVENTS]\n  ui-7 [000] 1.000200: lock <-take\n")
    text = ("# tracer: nop\n#\n" + "".join(lines)).encode()
    return [
        {"marks.txt": text},
        {"packed": b"TRACE:\n" + zlib.compress(text)},
        {"page.html": b'<script class="trace-data">\n' + text + b"</script>\n"},
        *_read(_SAMPLES / "ftrace" / "kernel.txt", _SAMPLES / "ftrace" / "trace-cmd.txt"),
    ]


def _ctf() -> list[Files]:
    switch = (
        '[1457113582.{0:09}] host sched_switch: {{ cpu_id = 1 }}, {{ prev_comm = "a",'
        ' prev_tid = {1}, prev_prio = 20, prev_state = 1, next_comm = "b \\"}}\\"",'
        " next_tid = {2}, next_prio = 20 }}\n"
    )
    kernel = switch.format(1000, 0, 7) + (
        "[1457113582.000002000] host syscall_entry_read: { cpu_id = 1 }, { fd = 3, count = 16 }\n"
        "[1457113582.000003000] host syscall_exit_read: { cpu_id = 1 }, { ret = 16,"
        " buf = [ [0] = 1, [1] = 2 ] }\n"
        '[1457113582.000004000] host sched_wakeup: { cpu_id = 1 }, { comm = "db", tid = 9,'
        " prio = 20, target_cpu = 1 }\n"
        "[1457113582.000005000] host irq_softirq_entry: { cpu_id = 1 }, { vec = 1 }\n"
    )
    user = (
        '[137.000000100] vm r6:state: { cpu_id = 1 }, { vtid = 42, procname = "w-0" },'
        ' { worker = 0, state = ( "io" : container = 2 ) }\n'
        "[137.000000200] lttng_ust_cyg_profile:func_entry: { cpu_id = 0 }, { vtid = 42 },"
        " { addr = 0x40472B }\n"
        '[979.417057183] sched:sched_wakeup: { perf_tid = 0, perf_cpu = 0, comm = "perf",'
        " pid = 18, prio = 120, success = 1, target_cpu = 0 }\n"
    )
    text = kernel + switch.format(7000, 7, 9) + switch.format(9000, 9, 0)
    return [{"kernel.babeltrace": text.encode()}, {"user.babeltrace": user.encode()}]


def _perf() -> list[Files]:
    headers = [
        "java  1234 [002] 12.345678:   10101010 cpu-clock:ppp: ",
        "java 99/1234 12.345679: 10101010 cycles: ",
        "C2 CompilerThre 7 [000] 12.345680000: 10101010 cpu-clock:ppp: ",
        "  sched:sched_process 5 [001] 13.000001: sched:sched_process_exit: comm=x pid=5 prio=120",
    ]
    switch = (
        "{0} {1} [001] {4}: sched:sched_switch: prev_comm={0} prev_pid={1} prev_prio=120 "
        "prev_state={5} ==> next_comm={2} next_pid={3} next_prio=120\n"
    )
    switches = [
        ("a", 7, "b", 8, "1.000000", "S"),
        ("b", 8, "swapper/1", 0, "1.000100", "R+"),
        ("swapper/1", 0, "a", 7, "1.000250", "R"),
        ("a", 7, "c", 9, "1.000300", "D"),
    ]
    return [
        {"stacks.txt": "".join(header + "\n" + _STACK for header in headers).encode()},
        {"lines.txt": "".join(header + " 7f41 main (/x)\n" for header in headers).encode()},
        {"switches.txt": "".join(switch.format(*each) for each in switches).encode()},
        {"short.txt": b"1.000000:\t\tcpu-clock:\n" + b"1.5:\n" * 4},
        {"unpadded.txt": b"java\t1 1.000000:\tcpu-clock:\n\t7f41 main (/x)\n\n" * 3},
        *_read(_SAMPLES / "perf" / "idle-and-java.txt", _EXAMPLES / "jobs.perf.gz"),
    ]


_CSV = (
    b"start_ns,end_ns,path,value\n0,5,a/b,x\n5,9,a/b,y\n20,30,a/b,x\n1,4,c,z\n",
    b"time_ns,name,weight\n1,a,2\n5,b,3\n5,a,1\n9,c,7\n",
    b'value,"path",end_ns,start_ns,other\r\n"x, y","a/""q""",7,3,\r\n,c,9,8,1\r\n',
)


_TABLES = {
    "jobs.csv": b"Start,End,Node,Job\n2024-01-01T10:00:00,2024-01-01 11:00:00.5Z,n1,a\n"
    b"2024-01-01T10:30:00+02:00,,n1,b\n1704103200,1704103300.25,n2,a\n,,n3,c\n",
    "steps.tsv": b"begin_ms\telapsed\tworker\tstep\n5\t1-02:00:00\tw\tx\n6\t1m 3s\tw\ty\n",
    "sacct.psv": b"JobID|JobName|Start|End|NodeList\n1|a|2024-01-01T10:00:00|Unknown|n[1-3,7],x\n"
    b"1.batch|batch|2024-01-01T10:00:00|Unknown|n1\n2|b|Unknown|Unknown|None assigned\n",
    "changes.csv": b"time,host,state\n2024-01-01,a,up\n2024-01-02,a,\n2024-01-03,b,down\n",
}


@cache
def _csv() -> list[Files]:
    own = [{f"table{number}.csv": text} for number, text in enumerate(_CSV)]
    return own + [{name: text} for name, text in _TABLES.items()]


@cache
def _sqlite() -> list[Files]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("PRAGMA page_size = 512")
        database.execute("CREATE TABLE runs (started_at, finished_at, host, job)")
        rows = [(f"2024-01-01 10:0{n}", 1704103700 + n, f"h{n % 2}", None) for n in range(9)]
        database.executemany("INSERT INTO runs VALUES (?, ?, ?, ?)", rows)
        database.commit()
        small = bytes(database.serialize())
        # pages above others, records that continue on other pages, and values of all types
        mixed = [(None, 2.5 * n, 10**n, "job" * n * n) for n in range(18)]
        database.executemany("INSERT INTO runs VALUES (?, ?, ?, ?)", mixed)
        database.commit()
        return [{"runs.db": small}, {"pages.db": bytes(database.serialize())}]


@cache
def _builds() -> list[Files]:
    folder = _SAMPLES / "builds"
    return _read(*sorted(path for path in folder.iterdir() if "LICENSE" not in path.name))


@cache
def _pictures() -> list[Files]:
    found = _read(_SAMPLES / "pictures" / "original.statemap.svg")
    statemap = _SAMPLES / "statemap" / "tokio-tasks.statemap"
    chrome = _SAMPLES / "chrome" / "simple_trace.json"
    pages = {
        "map.svg": meantime.statemap(statemap, coalesce=4),
        "flame.svg": meantime.flame(chrome),
        "chart.svg": meantime.flame(chrome, chart=True),
    }
    for name, view in pages.items():
        page = b"".join(view.render("svg"))
        # the script is no data
        found.append({name: re.sub(rb"<script>.*?</script>", b"", page, flags=re.DOTALL)})
    return found


@cache
def _parquet() -> list[Files]:
    pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    intervals = pa.table(
        {
            "start_ns": [0, 5, 20],
            "end_ns": [5, 9, 30],
            "path": ["a", "a", "b"],
            "value": list("xyx"),
        }
    )
    events = pa.table({"time_ns": [1, 5, 9], "name": ["a", "b", "a"], "weight": [1, None, 3]})
    found: list[Files] = []
    for number, (table, compression) in enumerate(
        ((intervals, "none"), (events, "none"), (intervals, "snappy"), (events, "zstd"))
    ):
        file = io.BytesIO()
        # without a dictionary and compression, the damage is in the values themselves
        parquet.write_table(
            table, file, compression=compression, use_dictionary=number > 1, store_schema=False
        )
        found.append({f"table{number}.parquet": file.getvalue()})
    for number, table in enumerate((intervals, events)):
        file = io.BytesIO()
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        found.append({f"table{number}.arrow": file.getvalue()})
    return found


@cache
def _joined() -> list[Files]:
    """Return a joined history of two traces, and one that joins it with another."""

    def joined(**hosts: str) -> bytes:
        clock: dict[str, Any] = {
            "kind": "utc",
            "host": None,
            "boot_id": None,
            "utc_at_origin_ns": 0,
            "anchors": [],
        }
        described = [
            {
                "name": name, "path": path, "offset_ns": 5 * number, "how": "clocks",
                "error_ns": 3, "checksum": None, "drift_ppt": number, "drift_at_ns": 2,
            }
            for number, (name, path) in enumerate(hosts.items())
        ]  # fmt: skip
        content = {"format": "meantime join", "version": 2, "clock": clock, "hosts": described}
        return json.dumps({**content, "anomalies": {"host_missing": 1}}).encode()

    traces = {"a.csv": _CSV[0], "b.statemap": next(iter(_statemap()[0].values()))}
    two = joined(a="a.csv", b="b.statemap")
    return [
        {"joined.mtj": two, **traces},
        {"joined.mtj": joined(a="two.mtj", c="b.statemap"), "two.mtj": two, **traces},
    ]


def _damaged_joined(files: Files, random: Random) -> Files:
    name = random.choice([each for each in files if each.endswith(".mtj")])
    damage = json_text if random.random() < 0.7 else partial(mutated, words=Words(text=True))
    return {**files, name: damage(files[name], random)}


def _example(declared: DeclaredFormat) -> list[Files]:
    """Return what a declaration shows."""
    assert declared.example, f"{declared.format} has no example, and is not fuzzed"
    return [{f"example{declared.names[0]}": declared.example}]


_TRACEPOINTS = Path(__file__).resolve().with_name("tracepoints.toml")


def _with_switches(samples: Callable[[], list[Files]]) -> list[Files]:
    """Return those samples of which the provider of tracepoints makes something."""
    return [files for files in samples() if any(b"sched_switch" in each for each in files.values())]


_PAIRS = b"""entity = "worker"
name = "step"
pair = ["job_started:job_finished,job_failed", "step_started:step_finished"]
by = ["job_id", "job_id,step"]
"""


def _pairs() -> list[Files]:
    """Return logs of begins and ends, with what is known of them beside them."""

    def log(*events: tuple[str, object, str | None, str]) -> bytes:
        lines = [
            {"timestamp": f"2026-03-02T08:00:00.{number:03}Z", "event": event, "job_id": job,
             "worker": worker} | ({} if step is None else {"step": step})
            for number, (event, job, step, worker) in enumerate(events)
        ]  # fmt: skip
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    nested = log(
        ("job_started", 1, None, "w0"), ("step_started", 1, "load", "w0"),
        ("job_started", 2, None, "w1"), ("step_finished", 1, "load", "w0"),
        ("step_started", 1, "store", "w0"), ("step_started", 2, "load", "w1"),
        ("job_failed", 2, None, "w1"), ("job_finished", 1, None, "w0"),
    )  # fmt: skip
    odd = log(
        ("step_finished", 1, "load", "w0"), ("job_finished", 1, None, "w0"),
        ("job_started", "1", None, "w0"), ("job_started", "1", None, "w0"),
        ("step_started", "1", "a", "w0"), ("step_started", "1", "a", "w1"),
        ("job_finished", "1", None, "w0"), ("job_started", 1.5, None, "w0"),
        ("job_started", None, None, "w0"), ("other", [1], "b", "w2"),
        ("step_started", 9, "late", "w2"),
    )  # fmt: skip
    return [
        {"app.jsonl": each, "app.jsonl.columns.toml": _PAIRS}
        for each in (nested, odd, nested + odd)
    ]


def _damaged_pairs(files: Files, random: Random) -> Files:
    name = random.choice(["app.jsonl"] * 4 + [*files])
    tokens = (
        b"job_started",
        b"job_finished",
        b"job_failed",
        b"step_started",
        b'"job_id":',
        b'"step":',
    )
    return {**files, name: mutated(files[name], random, Words(tokens, text=True))}


def _jsonl() -> list[Files]:
    lines = (_EXAMPLES / "files.jsonl").read_bytes().splitlines(keepends=True)
    wide = b"".join(
        b'{"ts":%d,"name":"%s","cpu":%d,"pid":1,"tid":2,"fd":3,"bytes":7,"path":"p","o":{"a":[1]}}\n'
        % (n * 10, (b"open", b"read", b"close")[n % 3], n)
        for n in range(6)
    )
    return [
        {"few.jsonl": b"".join(lines[:12])},
        {"files.jsonl": b"".join(lines)},
        {"w.jsonl": wide},
    ]


@cache
def _compressed() -> list[Files]:
    plain = [*_statemap()[:1], *_chrome()[:1], *_csv()[:1], *_perf()[:1]]
    found: list[Files] = []
    for files in plain:
        ((name, data),) = files.items()
        found += [
            {f"{name}.gz": gzip.compress(data, mtime=0)},
            {f"{name}.zst": zstd_frames.compress(data, checksum=True)},
            {f"{name}.zst": zstd_frames.compress(data)},
            {f"{name}.xz": lzma.compress(data)},
        ]
    return found


def _files_in(folder: Path) -> Files:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@contextlib.contextmanager
def _small_segments(changes: int) -> Any:
    """Let histories that are written be of many segments: a real one has a million changes."""
    defaults = Store.__init__.__defaults__
    Store.__init__.__defaults__ = (changes,)
    try:
        yield
    finally:
        Store.__init__.__defaults__ = defaults


@cache
def _history() -> list[Files]:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        inputs = {
            **_chrome()[0], **_statemap()[0], **_spall()[2], **_speedscope()[0], **_csv()[0],
        }  # fmt: skip
        for name, data in inputs.items():
            (top / name).write_bytes(data)
            meantime.build(top / name, None, top / f"{name}.mth")
        with _small_segments(6):
            meantime.build(top / "short.statemap", None, top / "segments.mth")
        with _small_segments(64):
            _write_numbers(top / "numbers.mth", close=True)
            _write_numbers(top / "unfinished.mth", close=False)
        _write_blocks(top / "pyramid.mth")
        with _small_segments(400):
            # With as many segments and changes as totals over whole segments need.
            _write_blocks(top / "pyramids.mth", 1500)
        return [_files_in(path) for path in sorted(top.glob("*.mth"))]


def _write_numbers(path: Path, *, close: bool) -> None:
    """Write a history of all types of values, with tags, late changes, and perhaps no end."""
    random = Random(1)  # noqa: S311 - as above
    builder = meantime.HistoryBuilder(path)
    text, whole, real = (builder.quark("t", name) for name in ("text", "int", "float"))
    tag = builder.tag({"pid": 1})
    for time_ns in range(0, 1000, 10):
        builder.modify(time_ns, text, random.choice(("x", "y", None)), random.choice((tag, None)))
        builder.modify(time_ns, whole, random.choice((0, 7, -(2**40), 2**62)))
        builder.modify(time_ns, real, random.choice((0.5, 3.0, float("inf"), None)))
    builder.push(1001, builder.quark("stack"), "bottom")
    if close:
        builder.close()
        return
    builder.flush()


def _write_blocks(path: Path, changes: int = 700) -> None:
    """Write a history whose segments have pyramids."""
    with meantime.HistoryBuilder(path) as builder:
        state, number = builder.quark("state"), builder.quark("number")
        for time_ns in range(changes):
            builder.modify(time_ns * 1000, state, ("a", "b")[time_ns % 2])
            builder.modify(time_ns * 1000, number, time_ns % 50)


_PLACE = "12\0work\0/app/main.py\0work\0/app/main.py\0{}\0{}"


def _record(kind: int, time: int, ident: int = 0, aux: int = 0, payload: bytes = b"") -> bytes:
    if payload:
        aux = len(payload)
    record = struct.pack("<QII", time << 8 | kind, ident, aux)
    return record + payload + bytes(-len(payload) % 16)


def _recording_files() -> Files:
    """Return a recording of one process: two tasks, a pool worker, samples, a segment and tails."""
    facts = struct.pack("<8s4Iq4IQq", b"mtrfacts", 1, 100, 0, 0, 5000, 0, 0, 0, 0, 0, 10**18)
    places = (("4", 1), ("10", 2), ("1", 3), ("5", 4))
    facts += b"".join(
        _record(131, 0, ident, payload=_PLACE.format(10 + ident, leaf).encode())
        for leaf, ident in places
    )
    facts += _record(132, 0, 1, payload=b"1\0main\0/app/main.py")
    facts += _record(132, 0, 2, payload=b"9\0leaf\0/app/main.py")
    facts += _record(133, 0, 1, payload=struct.pack("<2I", 0, 1))
    facts += _record(133, 0, 2, payload=struct.pack("<2I", 1, 2))
    facts += _record(137, 0, 0, payload=struct.pack("<Q", 100))
    facts += _record(135, 1, 0, payload=struct.pack("<5Q", 0, 0, 4, 1, 2))
    facts += _record(136, 900, 0, payload=struct.pack("<5Q", 0, 0, 50, 0, 10**18))

    def header(stream: int, segment: int) -> bytes:
        numbers = (1, 100, 0, stream, 5000, segment, 0, 0, 0, 0, 10**18)
        return struct.pack("<8s4Iq4IQq", b"mtrevent", *numbers)

    loop = [
        _record(130, 1, 100, payload=b"MainThread"), _record(51, 1, 0) , _record(16, 2, 4),
        _record(1, 3, 1, 1), _record(128, 3, 1, payload=b"first"), _record(3, 4, 1, 1),
        _record(129, 5, 1, payload=b"user\0anna"), _record(1, 6, 2, 1), _record(24, 7, 1, 4),
        _record(5, 9, 1, 2), _record(3, 10, 2, 1), _record(6, 20, 2, 3), _record(18, 21),
        _record(19, 50, 1), _record(11, 51, 1, 2), _record(3, 52, 1, 1), _record(32, 53),
        _record(36, 60), _record(7, 70, 1, 1), _record(4, 71, 2, 1), _record(9, 75, 2, 1),
        _record(134, 76, 0, payload=struct.pack("<4Q", 3, 60, 75, 0)), _record(17, 80, 4),
        _record(49, 90, 100),
    ]  # fmt: skip
    worker = [
        _record(130, 2, 101, payload=b"pool"), _record(25, 8, 1, 4), _record(34, 12),
        _record(36, 30), _record(26, 60, 1, 4), _record(50, 65, 9), _record(52, 66, 0, 2),
    ]  # fmt: skip
    sampler = [
        _record(130, 3, 102, payload=b"sampler"), _record(138, 3, 100, payload=b"MainThread"),
        _record(42, 100, 5), _record(40, 100, 100, 2), _record(41, 100, 1, 80),
        _record(42, 200, 5, 1), _record(40, 200, 100, 1), _record(43, 200, 1, 20),
        _record(40, 201, 101, 0xFFFFFFFF), _record(41, 201, 0, 5),
    ]  # fmt: skip
    chunk_bytes, chunks = 512, 2
    content = b"".join(worker)
    tail = struct.pack(
        "<8s4Iq2I9Q",
        b"mtrtail1",
        1,
        100,
        0,
        1,
        5000,
        chunk_bytes,
        chunks,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    )
    tail = tail.ljust(4096, b"\0") + content.ljust(chunk_bytes * chunks, b"\0")
    ring = struct.pack(
        "<8s4Iq2I9Q",
        b"mtrtail1",
        1,
        100,
        0,
        3,
        5000,
        chunk_bytes,
        chunks,
        3,
        0,
        0,
        9,
        2,
        2,
        2,
        4,
        7,
    )
    ring = ring.ljust(4096, b"\0") + content.ljust(chunk_bytes, b"\0") * 2
    described = {
        "format": "meantime recording", "version": 1, "argv": ["app"], "host": "h",
        "python": "3.11", "trace": "both", "policy": "block",
    }  # fmt: skip
    return {
        "recording.json": json.dumps(described).encode(),
        "100.0.facts": facts,
        "100.0.json": json.dumps({"argv": ["app"], "python": "3.11.2"}).encode(),
        "100.0.0.0.ev": header(0, 0) + b"".join(loop[:12]),
        "100.0.0.1.ev": header(0, 1)[:48]
        + struct.pack("<Qq", len(b"".join(loop[:12])) // 16, 10**18)
        + b"".join(loop[12:]),
        "100.0.1.tail": tail,
        "100.0.2.0.ev": header(2, 0) + b"".join(sampler),
        "100.0.3.tail": ring,
        "usage": struct.pack("<Q", 1000),
    }


@cache
def _recording() -> list[Files]:
    files = _recording_files()
    alone = {name: data for name, data in files.items() if "tail" not in name}
    return [files, alone]


@cache
def _packed() -> list[Files]:
    with tempfile.TemporaryDirectory() as folder:
        found: list[Files] = []
        for number, files in enumerate(_recording()):
            path = Path(folder) / f"{number}.mtr"
            path.mkdir()
            for name, data in files.items():
                (path / name).write_bytes(data)
            found.append({f"{number}.mtrz": b"".join(pack(path))})
        return found


def _field(number: int, content: int | bytes) -> bytes:
    """Return a field of a message of protobuf, below 128 in number and length."""
    if isinstance(content, int):
        return bytes([number << 3, content])
    return bytes([number << 3 | 2, len(content)]) + content


@cache
def _pprof() -> list[Files]:
    texts = (b"", b"cpu", b"nanoseconds", b"main", b"malloc", b"key", b"value", b"a.so", b"mall.*")
    profile = b"".join(
        [
            _field(1, _field(1, 1) + _field(2, 2)),
            _field(1, _field(1, 3)),
            _field(
                2, _field(1, b"\2\1") + _field(2, b"\5\6") + _field(3, _field(1, 5) + _field(2, 6))
            ),
            _field(2, _field(1, 3) + _field(1, 1) + _field(2, b"\7" + b"\xff" * 9 + b"\1")),
            _field(2, _field(2, b"\0\0") + _field(3, _field(1, 5) + _field(3, 9))),
            _field(3, _field(1, 1) + _field(5, 7)),
            _field(4, _field(1, 1) + _field(4, _field(1, 1))),
            _field(4, _field(1, 2) + _field(4, _field(1, 2)) + _field(4, _field(1, 1))),
            _field(4, _field(1, 3) + _field(2, 1) + _field(3, 77)),
            _field(5, _field(1, 1) + _field(2, 3)),
            _field(5, _field(1, 2) + _field(2, 4)),
            *(_field(6, text) for text in texts),
            _field(7, 8) + _field(9, 5) + _field(10, 6) + _field(12, 1) + _field(13, b"\3"),
        ]
    )
    return [{"small.pb": profile}, *_read(_SAMPLES / "profiles" / "node-wall.pb.gz")]


@cache
def _firefox() -> list[Files]:
    """Return a profile of two processes with all kinds of markers, in columns and in rows."""
    thread: dict[str, Any] = {
        "name": "Main", "pid": "7", "tid": 8, "processName": "web",
        "samples": {
            "length": 3, "stack": [1, None, 0], "timeDeltas": [1, 1.5, 1], "weight": [1, 1, 2],
            "weightType": "samples", "threadCPUDelta": [None, 5, 6],
        },
        "stackTable": {"length": 2, "prefix": [None, 0], "frame": [0, 1]},
        "frameTable": {"length": 2, "func": [0, 1], "category": [0, 1], "inlineDepth": [0, 1]},
        "funcTable": {"length": 2, "name": [0, 1], "resource": [-1, 0]},
        "resourceTable": {"length": 1, "name": [2], "lib": [0]},
        "markers": {
            "length": 6, "name": [3, 3, 3, 3, 3, 3], "phase": [0, 1, 2, 3, 1, 0],
            "startTime": [1, 2, 2.5, None, 2, 1], "endTime": [None, 3, None, 4, 2.5, None],
            "category": [0, 1, 1, 1, 0, 0],
            "data": [
                {"type": "Text", "name": "said"},
                {
                    "type": "Network", "URI": "https://me:secret@host/path?key=1",
                    "requestHeaders": "Cookie: 1", "cause": {"stack": 1},
                },
                {"type": "IPC", "direction": "sending", "messageSeqno": 1, "otherPid": "9",
                 "messageType": "M"},
                None,
                {"type": "UserTiming", "name": "measure"},
                {"type": "CompositorScreenshot", "url": 1},
            ],
        },
        "stringArray": ["main", "0x10", "lib.so", "Marker"],
    }  # fmt: skip
    counter = {
        "name": "malloc", "category": "Memory", "pid": "7",
        "samples": {"length": 2, "time": [1, 2], "count": [5, -2], "number": [1, 1]},
    }  # fmt: skip
    rows = {
        "name": "Child", "processType": "tab", "pid": 9, "tid": 1,
        "samples": {"schema": {"stack": 0, "time": 1}, "data": [[0, 1], [None, 2]]},
        "stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": [[None, 0]]},
        "frameTable": {"schema": {"location": 0, "category": 1}, "data": [[0, 1]]},
        "markers": {
            "schema": {"name": 0, "time": 1, "data": 2},
            "data": [
                [1, 1, {"type": "tracing", "interval": "start"}],
                [1, 2, {"type": "tracing", "interval": "end"}],
                [1, 2, {"startTime": 0.5, "endTime": 2}],
                [1, 4, {"type": "IPC", "direction": "receiving", "messageSeqno": 1,
                        "otherPid": "7", "messageType": "M"}],
            ],
        },
        "stringTable": ["fn (file.js:1)", "Paint"],
    }  # fmt: skip
    meta = {
        "startTime": 1500000000000.25, "interval": 1, "stackwalk": 1, "version": 30,
        "categories": [{"name": "Other"}, {"name": "JavaScript"}],
    }  # fmt: skip
    child = {"meta": {**meta, "startTime": 1500000000001.25}, "threads": [rows], "libs": []}
    whole = {"meta": meta, "threads": [thread], "counters": [counter], "processes": [child]}
    nested = {"meta": meta, "threads": [rows, json.dumps(child)]}
    return [
        {"columns.json": json.dumps(whole).encode()},
        {"rows.json": json.dumps(nested).encode()},
    ]


_JSON_TOKENS = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b'\\u0000"', b"\xff", b"\xef\xbb\xbf"),
)
_PERF_TOKENS = (
    *(
        b"1.5:\n",
        b"\t",
        b"[000]",
        b" 0 ",
        b":",
        b"==>",
        b"prev_comm=",
        b"prev_pid=",
        b"prev_state=R",
    ),
    *(b"next_comm=x next_pid=1", b"cpu-clock:", b"sched:sched_switch:", b"\n\n", b"+0x", b"(["),
    *(b"PERF_RECORD_LOST ", b" [unknown] ", b"\r\n", b"#", b"PERF_RECORD_SWITCH"),
)

FORMATS = {
    kind.name: kind
    for kind in (
        Format(
            "statemap", _statemap, (
                *_JSON_TOKENS, b'"time":"', b'"entity":"', b'"state":', b'"tag":"x"', b'"event":"',
                b'"description":', b'"start":[', b'"begin":[', b'"states":{',
            ), reader="statemap",
        ),
        Format(
            "chrome", _chrome, (
                *_JSON_TOKENS, b'"ph":"B"', b'"ph":"E"', b'"ph":"X"', b'"ph":"b"', b'"ph":"s"',
                b'"ph":"P"', b'"ts":', b'"dur":', b'"id":"0x', b'"id2":{"local":1}', b'"args":{',
                b'"traceEvents":[', b'"scope":"', b'"bp":"e"', b'"tts":', b'"tid":"x"',
            ), reader="chrome",
        ),
        Format(
            "spall", _spall, (
                b"\3", b"\4", b"\2", struct.pack("<d", float("nan")), struct.pack("<d", 1e300),
                struct.pack("<d", -1e19), struct.pack("<d", float("inf")),
                struct.pack("<d", 2.0**63),
            ), text=False, reader="spall",
        ),
        Format(
            "speedscope", _speedscope, (
                *_JSON_TOKENS, b'"frame":', b'"at":', b'"type":"O"', b'"unit":"none"',
                b'"unit":"seconds"', b'"samples":', b'"weights":',
            ), reader="speedscope",
        ),
        Format(
            "cpuprofile", _cpuprofile,
            (*_JSON_TOKENS, b'"parent":', b'"children":[', b'"id":', b'"timeDeltas":['),
            reader="cpuprofile",
        ),
        Format(
            "otlp", _otlp, (
                *_JSON_TOKENS, b'"traceId":"', b'"parentSpanId":"', b'"spans":[', b'"value":{',
                b'"startTimeUnixNano":"0"', b"\x0a\x10", b"\x12\x08", b"\xff" * 10,
            ), structure=otlp, reader="otlp",
        ),
        Format(
            "perfetto", _perfetto, (
                b"\x0a", b"\x5a\x02\x48\x01", b"\x68\x01", b"\x68\x02", b"\xff" * 9 + b"\x01",
                b"\x92\x03", b"\xe2\x03", b"\x08\x40", b"\x20\xff\xff\xff\xff\xff\xff\xff\x7f",
            ), text=False, structure=protobuf, reader="perfetto",
        ),
        Format(
            "jaeger", _jaeger, (
                *_JSON_TOKENS, b'"spanID":"', b'"references":[', b'"duration":',
                b'"processID":"p9"',
            ), reader="jaeger",
        ),
        Format(
            "zipkin", _zipkin, (
                *_JSON_TOKENS, b'"id":"', b'"parentId":"', b'"shared":true', b'"timestamp":',
            ), reader="zipkin",
        ),
        Format(
            "pprof", _pprof, (
                b"\x0a\x04\x08\x01\x10\x02", b"\x12\x02\x0a\x00", b"\x22\x00", b"\x2a\x00",
                b"\x38\x01", b"\x0a\x01", b"\xff" * 9 + b"\x01", b"\x80", b"\x00",
            ), text=False, structure=protobuf, reader="pprof",
        ),
        Format(
            "firefox", _firefox, (
                *_JSON_TOKENS, b'"stackTable":', b'"prefix":[0,1]', b'"length":', b'"time":[',
                b'"schema":{', b'"data":[[', b'"phase":[3]', b'"weight":[', b'"processes":[',
                b'"startTime":', b'"frame":[-1]', b'"timeDeltas":[',
            ), reader="firefox",
        ),
        Format(
            "folded", _folded, (b";", b" ", b"\n", b";;", b"\0", b"\xff", b" 1e9", b"\t1"),
            reader="folded",
        ),
        Format(
            "picture", _pictures, (
                b'<metadata data-block="p0">', b"AAAA", b"/////w==", b"<title>f (3 samples, 9%)",
                b'"t": 5, "s": 1}', b"g: {'0': 1.0}", b'"rowHeight":1', b"&lt;", b'x="1"',
            ), reader="picture",
        ),
        Format(
            "stackprof", _stackprof,
            (*_JSON_TOKENS, b'"raw":[', b'"mode":"wall"', b'"interval":', b'"frames":{'),
            reader="stackprof",
        ),
        Format(
            "safari", _safari,
            (*_JSON_TOKENS, b'"stackFrames":[', b'"timestamp":', b'"startTime":', b'"records":['),
            reader="safari",
        ),
        Format(
            "heapprofile", _heapprofile,
            (*_JSON_TOKENS, b'"selfSize":', b'"children":[', b'"callFrame":{'),
            reader="heapprofile",
        ),
        Format(
            "instruments", _instruments, (b"\t", b"\n", b" ms\t", b" Gc\t", b"    ", b" 9e9 "),
            reader="instruments",
        ),
        Format(
            "callgrind", lambda: _small_profiles("callgrind"),
            (b"fn=(1)\n", b"calls=1 1\n", b"events: a b\n", b"positions: instr line\n", b"+1 "),
            reader="callgrind",
        ),
        Format(
            "art", _art, (b"SLOW", b"*end\n", b"*methods\n", b"\x03\x00", b"\xff" * 4),
            text=False, reader="art",
        ),
        Format(
            "go-trace", _go_trace, (b"\x4e\x01\x07", b"\xff" * 9 + b"\x01", b"\x02\x00", b"\x25"),
            text=False, reader="go-trace",
        ),
        Format(
            "perf-data", _perf_data,
            (b"\x09\0\0\0", b"\xff" * 8, bytes(8), b"\x44\0\0\0\0\0\x08\0"),
            text=False, reader="perf-data",
        ),
        Format(
            "trace-dat", _trace_dat, (b"flyrecord\0", b"options  \0", b"\xff" * 8, bytes(8)),
            text=False, reader="trace-dat",
        ),
        Format(
            "simpleperf", _simpleperf, (b"\x0a\x02\x08\x01", b"\xff" * 9 + b"\x01", bytes(4)),
            text=False, structure=simpleperf, reader="simpleperf",
        ),
        Format(
            "jfr", _jfr, (b"FLR\0", b"\xff" * 9, b"\x80" * 8, b"true", b"dimension", b"\3\xff\x7f"),
            text=False, structure=flight_recording, reader="jfr",
        ),
        Format(
            "nsys", _nsys, (b"INTEGER", b"CREATE TABLE ", b"\x05\x00", b"\x0d\x00", b"globalTid"),
            text=False, structure=sqlite, reader="nsys",
        ),
        Format(
            "strace", _strace,
            (
                b" <unfinished ...>", b"<... clone resumed>", b"+++ ", b"--- SIG", b" = ? ",
                b" <0.5>", b"[pid 9] ", b"+++ superseded by execve in pid 8 +++", b"99:99:99 ",
                b"9999999999999999999.9 ", b"strace: Process 9 attached", b"clone(", b") = ",
            ), reader="strace",
        ),
        Format(
            "ftrace", _ftrace,
            (*_PERF_TOKENS, b"irq_handler_entry: ", b"0: B|5|x\n", b"CPU:1 [LOST 2 EVENTS]\n"),
            reader="ftrace",
        ),
        Format("perf", _perf, _PERF_TOKENS, reader="perf"),
        *(
            Format(
                f"{name}-events", partial(_with_switches, samples), _PERF_TOKENS, reader=name,
                provider=_TRACEPOINTS,
            )
            for name, samples in (("perf", _perf), ("ftrace", _ftrace))
        ),
        Format(
            "ctf", _ctf,
            (
                b"{ ", b" }", b", ", b" = ", b'"', b"\\", b"( ", b"[ ", b"container = ", b"0x",
                b"cpu_id = 4095", b"tid = ", b"rwbs = ", b"block_rq_issue", b"irq_softirq_exit",
                b"syscall_exit_", b"\n", b"] ", b": {", b"9999999999999999999",
            ),
        ),
        Format(
            "csv", _csv, (
                b",", b'"', b"\n", b"\r", b"\0", b"/", b"\\", b"*", b'""', b"\xff", b"|", b"\t",
                b"Unknown", b"2024-01-01T00:00:00Z", b"9" * 18, b"1e300", b"NaN", b"-1", b"[0-9]",
            ),
            reader="table",
        ),
        Format("sqlite", _sqlite, (b"SQLite format 3\0", b"runs"), text=False, structure=sqlite),
        Format(
            "builds", _builds, (
                *_JSON_TOKENS, b'"startstops":[', b"\t", b"# ninja log v5\n", b"<testsuite>",
                b"<testcase ", b"time='", b"&lt;", b"<!DOCTYPE x>", b'"steps":[', b'"jobs":[',
            ),
        ),
        Format("parquet", _parquet, (b"PAR1",), text=False, structure=arrow),
        Format(
            "jsonl", _jsonl,
            (*_JSON_TOKENS, b'"ts":', b'"time_ns":', b'"name":"', b'"cpu":', b'"fd":'),
            reader="jsonl", provider=_EXAMPLES / "files.toml",
        ),
        Format(
            "compressed", _compressed, (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0"),
            text=False,
        ),
        Format(
            "mtj", _joined, damage=_damaged_joined, is_directory=True, opened="joined.mtj"
        ),
        Format("pairs", _pairs, damage=_damaged_pairs, is_directory=True, opened="app.jsonl"),
        Format("ctf-packets", _ctf_packets, damage=mutated_trace, is_directory=True),
        Format("mth", _history, damage=mutated_history, is_directory=True),
        Format("mtr", _recording, damage=mutated_recording, is_directory=True),
        Format("mtrz", _packed, damage=mutated_packed),
    )
}  # fmt: skip
# Formats of directories, and what is fuzzed under another name.
_ELSEWHERE = {"recording", "history", "ctf", "table", "ninja", "junit", "github-actions", "dask"}
FORMATS |= {
    each.format: Format(each.format, partial(_example, each), reader=each.format)
    for each in DECLARED
    if each.format not in {*FORMATS, *_ELSEWHERE}
}
