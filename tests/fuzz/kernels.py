"""The kernels that read bytes of others, each called as its reader does, and nothing around it.

An input takes a hundredth of the time that its reader, a history and questions take. Their samples
are those of the formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from perf_files import OTHER_FORMAT, SWITCH_FORMAT

from meantime.errors import MeantimeError
from meantime.kernels import (
    csv_rows,
    ctf,
    event_rows,
    jfr,
    linux_records,
    perf,
    records,
    scan_statemap,
    service_rows,
    spall,
    strace,
    varints,
)
from meantime.kernels.chrome import ChromeScanner
from meantime.kernels.perf_data import PerfData
from meantime.kernels.perfetto import PerfettoScanner
from meantime.kernels.trace_dat import FULL, TraceDat
from meantime.readers.chrome.phases import KINDS
from meantime.readers.tracing_data import tracepoint_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KERNELS", "READING", "REFUSALS"]

# So few rows in a batch, and so many bytes in a block, that most inputs have several.
_ROWS = 5
_BLOCK = 700
_MOST_SCANS = 400
_PERFETTO_FIELDS = 1024
_PERFETTO_READ = (6, 35, 43, 44, 50, 59, 60, 63)


_JFR_OPS = [
    np.array(rows, np.int32)
    for rows in (
        [[jfr.Op.INTEGER, 0, 0], [jfr.Op.TEXT, 1, 0], [jfr.Op.ARRAY, 2, 1], [jfr.Op.LONG, -1, 0]],
        [[jfr.Op.ARRAY, 0, 2], [jfr.Op.INTEGER, -1, 0], [jfr.Op.TEXT, -1, 0], [jfr.Op.MARK, 1, 0]],
        [[jfr.Op.INTEGER, 0, 0]],
        [[op, 0, 0] for op in (jfr.Op.BOOLEAN, jfr.Op.BYTE, jfr.Op.SHORT, jfr.Op.DOUBLE)],
    )
]


class _Kernel(NamedTuple):
    """A kernel that is fuzzed.

    Attributes:
        call: Calls it with an array of bytes.
        formats: Of which formats its inputs are.
    """

    call: Callable[[Any], None]
    formats: tuple[str, ...]

    def read(self, data: bytes) -> None:
        """Call it with bytes in memory of their own: a byte before or behind is a report."""
        self.call(np.frombuffer(data, np.uint8).copy())


def _part(data: Any, at: int, size: int = _BLOCK) -> Any:
    return data[at : at + size].copy()


def _statemap(data: Any) -> None:
    ranged = bool(len(data) % 3 == 0)
    scanner = scan_statemap.Scanner(
        room=8 * _ROWS,
        until_ns=None,
        asks=len(data) % 5 == 0,
        late=len(data) % 2 == 0 and not ranged,
        range_ns=(5, 50) if ranged else None,
    )
    scanner.define_states(["a", "b"])
    at = 0
    for _ in range(_MOST_SCANS if len(data) else 0):
        stop = scanner.scan(data, at, len(data))
        if stop == scan_statemap.Stop.DRAINED:
            break
        at = scanner.start
        if stop == scan_statemap.Stop.NEW_ENTITY:
            scanner.admit(keep=at % 2 == 0)
        elif stop == scan_statemap.Stop.RANGE_BEGINS:
            scanner.release()
        elif stop == scan_statemap.Stop.FULL:
            scanner.take_changes()
            scanner.take_points()
            scanner.take_notes()
        elif scanner.end > at:
            at = scanner.end  # passed over
    scanner.release()
    scanner.take_changes()
    if len(data):
        scan_statemap.count_lines(data, 0, len(data))


def _chrome(data: Any) -> None:
    scanner = ChromeScanner(
        len(data), kinds=KINDS, default_id=b"0", lenient=len(data) % 2 == 0, private=("env", "argv")
    )
    size = _BLOCK
    for _ in range(_MOST_SCANS):
        at = scanner.position
        if not scanner.scan_block(_part(data, at, size), at):
            break
        size = size * 2 if scanner.position == at else _BLOCK
    for part in (scanner.spans, scanner.marks, scanner.records, scanner.threads):
        part()
    for texts in (scanner.names, scanner.categories, scanner.ids):
        texts(0)


def _spall(data: Any) -> None:
    scanner = spall.SpallScanner(len(data), len(data) % 2, 0.5, lenient=len(data) % 3 == 0)
    for _ in range(_MOST_SCANS):
        at = scanner.position
        scanner.scan_block(_part(data, at), at)
        if scanner.position == at:
            break
    scanner.close()
    scanner.take(everything=True)
    scanner.spans()
    scanner.instants()
    scanner.names(0)


def _perfetto(data: Any) -> None:
    wanted = bytearray(_PERFETTO_FIELDS)
    for number in _PERFETTO_READ:
        wanted[number] = 1
    scanner = PerfettoScanner(bytes(wanted), len(data) % 2 == 0)
    scanner.root_clock = scanner.clock(0, 6)
    at = 0
    for number in range(_MOST_SCANS):
        scanner.scan_block(data, at, len(data), last=True)
        if scanner.position <= at:
            break
        at = scanner.position
        scanner.set_clock(scanner.clock(number % 3, 64 + number), 1000, number % 2 == 0, number)
    scanner.take_others()
    scanner.tables(linux_records.RECORD_TYPE)
    for part in (scanner.counts, scanner.cpus, scanner.names, scanner.texts, scanner.fields):
        part()


def _perf(data: Any) -> None:
    text: Any = perf.PerfText(len(data) % 3, len(data) % 2 == 0, len(data) % 5 != 0)
    columns: list[Any] = [np.zeros(_ROWS, np.int64) for _ in range(2)]
    columns += [np.zeros(_ROWS, np.int32) for _ in range(4)]
    tail = np.zeros((_ROWS, 2), np.int64) if len(data) % 7 == 0 else None
    at = 0
    for _ in range(_MOST_SCANS):
        block = _part(data, at)
        last = at + len(block) == len(data)
        done, _, full = text.scan(block, last, *columns, tail)
        at += done
        if last and not full:
            break
        if not done and not full:
            at += 1 + bytes(block).find(b"\n")
    text.names_so_far()
    text.stacks_so_far()
    text.frames_so_far()
    text.ids_so_far()
    text.events_from(0)
    text.records_so_far()


def _formats() -> tuple[list[Any], list[tuple[int, bytes]]]:
    texts = (SWITCH_FORMAT, OTHER_FORMAT)
    found = [tracepoint_of("any", text.encode()) for text in texts]
    known = [each for each in found if each is not None]
    return [each.raw for each in known], [(each.number, each.name.encode()) for each in known]


def _perf_data(data: Any) -> None:
    text: Any = PerfData(7, len(data) % 2 == 0, len(data) % 5 != 0)
    keeps_text = len(data) % 7 == 0
    text.begin_reading(len(data) % 3 == 0, keeps_text)
    text.set_formats(_formats()[0])
    for number in range(3):
        fields = 65536 | 1 | 2 | 4 | 128 | 256 | (0, 1024, 32)[number]
        text.add_attr(fields, 4, 1, True, number > 0, number - 1, b"event", [100 + number])
    columns: list[Any] = [np.zeros(_ROWS, np.int64) for _ in range(2)]
    columns += [np.zeros(_ROWS, np.int32) for _ in range(3)]
    tail = np.zeros((_ROWS, 2), np.int64) if keeps_text else None
    at = 0
    for scan in range(_MOST_SCANS):
        at, why = text.push(data, at)
        is_last = why <= 0 or scan == _MOST_SCANS - 1
        text.end_round(is_last)
        full = True
        while full:
            _, full = text.scan_ordered(*columns, tail)
            _, file = text.new_places()
            which = np.zeros(len(file), np.int32)
            text.name_places([b"La::b->Lc::d"], which, np.zeros(1, np.uint8))
            text.stacks_of_rows(np.empty(_ROWS, np.int32))
        if is_last:
            break
        at += max(8, text.header_at(data, at)[2])
        if at > len(data):
            break
    text.files_from(0)
    text.fields_text()
    text.records_so_far()


def _trace_dat(data: Any) -> None:
    text: Any = TraceDat(64, len(data) % 2 == 0, len(data) % 5 != 0)
    keeps_text = len(data) % 7 == 0
    text.begin_reading(False, keeps_text)
    formats, events = _formats()
    text.set_formats(formats)
    text.name_events(events)
    text.begin_buffers([0, 1, 0], 256, 8, 0, len(data) % 3 == 0)
    columns: list[Any] = [np.zeros(_ROWS, np.int64) for _ in range(2)]
    columns += [np.zeros(_ROWS, np.int32) for _ in range(4)]
    tail = np.zeros((_ROWS, 2), np.int64) if keeps_text else None
    at, rows = 0, 0
    for _ in range(_MOST_SCANS):
        rows, why = text.scan_buffers(*columns, tail, rows)
        if why >= 0:
            block = bytes(data[at : at + 512])
            at += len(block)
            text.feed(why, block.ljust(-(-len(block) // 256) * 256, b"\0"), not block)
        elif why == FULL:
            rows = 0
        else:
            break
    text.records_so_far()


def _strace(data: Any) -> None:
    text, at = strace.StraceText(with_commands=len(data) % 2 == 0), 0
    while True:
        block = _part(data, at)
        last = at + len(block) == len(data)
        done = text.scan(block, last)
        at += done or len(block)
        if last:
            break
    for part in (text.calls, text.events, text.text, text.names, text.threads):
        part()


def _ctf(data: Any) -> None:
    text, output = ctf.CtfText(len(data) % 2 == 0), bytearray(_BLOCK)
    at = 0
    for _ in range(_MOST_SCANS):
        used, _ = text.rewrite(_part(data, at, len(data)), output)
        if not used:
            break
        at += used


def _csv(data: Any) -> None:
    wanted = [(0, len(data) % 2 == 0), (2, True), (3, False)]
    delimiter = "|" if len(data) % 3 == 0 else ","
    found = csv_rows.read_rows(data, min(3, len(data)), wanted, delimiter, 4)
    for column in found[2] if found is not None else ():
        if len(column) == 2:
            csv_rows.parse_times([text.decode(errors="replace") for text in column[1]])


def _events(data: Any) -> None:
    mapped: dict[str, Any] = {"time_key": b"time_ns", "unit_ns": 1000} if len(data) % 2 else {}
    rows, at = event_rows.EventRows(_ROWS, **mapped), 0
    after: tuple[int, int] = (-(2**63), 0)
    for _ in range(_MOST_SCANS):
        _, behind = rows.scan(
            data, at, len(data), line=0, offset=at, until_ns=2**62, after=after, known_to=0
        )
        if len(rows):
            rows.take(len(rows), np.arange(64, dtype=np.int32))
        if behind <= at:
            behind = bytes(data).find(b"\n", at) + 1
            if not behind:
                break
        at = behind
    rows.names_from(0)


def _services(data: Any) -> None:
    rows = service_rows.ServiceRows((b"\nenv\nargv\n",), (b"service.name", b"host.name"))
    if len(data) % 2:
        rows.begin(len(data))
        rows.scan_message(data)
    else:
        rows.begin()
        rows.scan_json(data, last=True)
    found, links = rows.rows(), rows.links()
    service_rows.split(found)
    parent, *_ = service_rows.relate(found, links)
    service_rows.generations(parent)
    rows.points()
    rows.names()
    rows.threads()
    rows.text()


def _varints(data: Any) -> None:
    message, _, ranges = varints.fields(data, np.array([[0, len(data)]]))
    for read in (varints.fields, varints.numbers_of, varints.different):
        for row in range(min(len(message), _ROWS)):
            try:
                read(data, ranges[row : row + 1])
            except ValueError:
                continue
    varints.decoded(data, len(data) // 2)
    varints.running(data, len(data) // 2, 1, 2)


def _jfr(data: Any) -> None:
    compressed = len(data) % 4 != 0
    _, offsets, _ = jfr.walk(data, 0, compressed)
    for ops in _JFR_OPS:
        try:
            jfr.columns(data, offsets, ops, 3, compressed, len(data) % 3 == 0)
            jfr.elements(data, offsets, np.minimum(ops, [[11, 0, 9]]), compressed)
            jfr.constants(data, 0, len(data), 9, np.minimum(ops, [[11, -1, 9]]), compressed)
        except ValueError:
            continue
    for read in (jfr.text_of, jfr.classes_at):
        try:
            read(data, min(1, len(data)), compressed)
        except ValueError:
            continue
    jfr.different_texts(data, offsets, compressed)


def _records(data: Any) -> None:
    words = data[: len(data) // 8 * 8].copy().view(np.uint64)
    rows, payloads, _ = records.count(words, 10**6)
    records.decode(
        words, -5, 7, np.empty(rows, np.int64), np.empty(rows, np.uint8),
        np.empty(rows, np.uint32), np.empty(rows, np.uint32), np.empty(payloads, np.int64),
        np.empty(payloads, np.int64),
    )  # fmt: skip


# What kernels raise where the bytes are at fault.
REFUSALS = (MeantimeError, ValueError, OverflowError)
KERNELS = {
    "kernel-statemap": _Kernel(_statemap, ("statemap",)),
    "kernel-chrome": _Kernel(_chrome, ("chrome",)),
    "kernel-spall": _Kernel(_spall, ("spall",)),
    "kernel-perfetto": _Kernel(_perfetto, ("perfetto",)),
    "kernel-perf": _Kernel(_perf, ("perf", "ftrace")),
    "kernel-perf-data": _Kernel(_perf_data, ("perf-data",)),
    "kernel-trace-dat": _Kernel(_trace_dat, ("trace-dat",)),
    "kernel-strace": _Kernel(_strace, ("strace",)),
    "kernel-ctf": _Kernel(_ctf, ("ctf",)),
    "kernel-csv": _Kernel(_csv, ("csv",)),
    "kernel-events": _Kernel(_events, ("jsonl",)),
    "kernel-services": _Kernel(_services, ("otlp", "jaeger", "zipkin")),
    "kernel-varints": _Kernel(_varints, ("pprof", "otlp", "perfetto", "simpleperf")),
    "kernel-jfr": _Kernel(_jfr, ("jfr",)),
    "kernel-records": _Kernel(_records, ("mtr",)),
}
# The modules of the core that read bytes of others; what they refuse or count is tried here.
READING = frozenset({
    "chrome", "csv_rows", "ctf", "ctf_packets", "event_rows", "jfr", "linux_records", "log_pairs",
    "perf", "perf_data", "perfetto", "records", "scan_statemap", "service_rows", "spall",
    "sqlite_rows", "strace", "trace_dat", "tracepoints", "varints",
})  # fmt: skip
