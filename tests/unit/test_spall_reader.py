from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.errors import InputError
from meantime.history.ingest import build
from meantime.kernels.spall import SpallScanner
from meantime.readers import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meantime.history.history import History

MAGIC, AUTO = 0x0BADF00D, 0xABADF00D


def header(version: int, unit: float = 1.0, magic: int = MAGIC) -> bytes:
    return struct.pack("<QQdQ", magic, version, unit, 0)


def begin0(time: float, name: bytes = b"a", tid: int = 2) -> bytes:
    return struct.pack("<BIIdB", 3, 1, tid, time, len(name)) + name


def begin1(time: float, name: bytes = b"a", args: bytes = b"", tid: int = 2) -> bytes:
    return struct.pack("<BBIIdBB", 3, 0, 1, tid, time, len(name), len(args)) + name + args


def end1(time: float, tid: int = 2) -> bytes:
    return struct.pack("<BIId", 4, 1, tid, time)


def complete0(time: float, duration: float, name: bytes = b"a") -> bytes:
    return struct.pack("<BIIddB", 2, 1, 2, time, duration, len(name)) + name


def begin3(time: int, name: bytes = b"a", args: bytes = b"") -> bytes:
    return struct.pack("<BQBB", 3, time, len(name), len(args)) + name + args


def end3(time: int) -> bytes:
    return struct.pack("<BQ", 4, time)


def buffer3(*records: bytes, tid: int = 2) -> bytes:
    body = b"".join(records)
    return struct.pack("<IIIQ", len(body), tid, 1, 0) + body


class Eager(SpallScanner):
    """A scanner from which spans are taken after each block."""

    is_full = True


@pytest.fixture(params=[1 << 20, 1, 50], ids=["one-block", "growing-blocks", "small-blocks"])
def read(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., History]:
    # where the blocks end that are scanned changes nothing
    monkeypatch.setattr("meantime.readers.spall.BLOCK_BYTES", request.param)
    if request.param == 50:
        monkeypatch.setattr("meantime.readers.spall.spall.SpallScanner", Eager)

    def read_bytes(data: bytes, *, lenient: bool = False) -> History:
        path = tmp_path / "trace.spall"
        path.write_bytes(data)
        return build(open_trace(path, lenient=lenient))

    return read_bytes


def rows(history: History) -> list[tuple[str | None, int, int, int]]:
    spans = history.spans()
    return [
        (spans.name[row], int(spans.start_ns[row]), int(spans.end_ns[row]), int(spans.depth[row]))
        for row in range(len(spans))
    ]


NESTED = [("a", 1000, 9000, 0), ("b", 2000, 3000, 1)]


@pytest.mark.parametrize(
    "data",
    [
        header(0) + begin0(1) + begin0(2, b"b") + end1(3) + end1(9),
        header(0) + complete0(2, 1, b"b") + complete0(1, 8),
        header(0) + begin0(1) + complete0(2, 1, b"b") + end1(9),
        header(1) + begin1(1) + begin1(2, b"b") + end1(3) + end1(9),
        header(1, 0.001) + begin1(1000) + begin1(2000, b"b") + end1(3000) + end1(9000),
        header(3) + buffer3(begin3(1000), begin3(2000, b"b"), end3(3000), end3(9000)),
        header(3, 1000.0) + buffer3(begin3(1), begin3(2, b"b")) + buffer3(end3(3), end3(9)),
        header(3, 0.5) + buffer3(begin3(2000), begin3(4000, b"b"), end3(6000), end3(18_000)),
    ],
)
def test_every_version_gives_the_same_spans(read: Callable[..., History], data: bytes) -> None:
    history = read(data)

    assert rows(history) == NESTED
    assert not history.anomalies
    assert history.attributes.path(int(history.spans().threads[0])) == (
        "Processes",
        "1",
        "Threads",
        "2",
    )


def test_the_automatic_version_gives_addresses_in_hex(read: Callable[..., History]) -> None:
    head = struct.pack("<QQdQH", AUTO, 3, 1.0, 0x400000, 4) + b"prog"
    body = (
        bytes([0b00_01_10_00]) + struct.pack("<HIB", 1000, 0x401000, 7)
        + bytes([0b00_01_00_00]) + struct.pack("<HBB", 1000, 0x20, 0)
        + bytes([0b01_01_0000]) + struct.pack("<H", 1000)
        + bytes([0b10_01_01_0_0]) + struct.pack("<HBB", 500, 1, 2) + b"n" + b"{}"
        + bytes([0b01_00_0000, 50])
        + bytes([0b01_10_0000]) + struct.pack("<I", 5450)
    )  # fmt: skip
    data = head + struct.pack("<IIQI", len(body), 5, 0, 9) + body

    history = read(data)

    assert rows(history) == [
        ("0x401000", 1000, 9000, 0),
        ("0x401020", 2000, 3000, 1),
        ("n", 3500, 3550, 1),
    ]
    assert history.facts["program"] == "prog"
    assert history.spans().arguments(2) == "{}"


def test_names_and_arguments_are_kept(read: Callable[..., History]) -> None:
    named = bytes([8, 4]) + b"prog" + bytes([9, 6]) + b"worker"

    history = read(header(3) + buffer3(named, begin3(1, b"a", b"7"), end3(2)))

    assert sorted(history.names.values()) == ["prog", "worker"]
    assert history.spans().arguments(0) == "7"


def test_empty_spans_stay_empty_and_nested(read: Callable[..., History]) -> None:
    history = read(
        header(3) + buffer3(begin3(5), end3(5), begin3(5, b"b"), begin3(5, b"c"), end3(5), end3(9))
    )

    assert rows(history) == [("a", 5, 5, 0), ("b", 5, 9, 0), ("c", 5, 5, 1)]


@pytest.mark.parametrize(
    ("data", "anomalies", "spans"),
    [
        (header(1) + end1(5) + begin1(6) + end1(7), {"end_without_begin": 1}, 1),
        (header(1) + begin1(6) + end1(7) + begin1(8), {"unfinished_span": 1}, 2),
        (header(1) + begin1(6) + end1(5), {"negative_duration": 1, "time_went_back": 1}, 1),
        (header(1) + begin1(6) + end1(7) + begin1(1) + end1(2), {"time_went_back": 1}, 2),
        (header(1) + begin1(6) + end1(7) + begin1(8)[:-1], {"truncated": 1}, 1),
        (header(3) + buffer3(begin3(6), end3(7))[:-3], {"truncated": 1, "unfinished_span": 1}, 1),
        (header(3) + buffer3(begin3(6), end3(7)) + b"\1\0\0", {"truncated": 1}, 1),
        (header(0) + b"\1\3\0\0\0xyz" + begin0(1) + end1(2), {"record_skipped": 1}, 1),
        (header(3) + buffer3(b"\7\2\0\0\0xy", begin3(6), end3(7)), {"record_skipped": 1}, 1),
        (header(1) + begin1(6, b"\xff") + end1(7), {"undecodable_text": 1}, 1),
        (
            header(1) + begin1(float("nan")) + end1(float("inf")),
            {"time_out_of_range": 2},
            1,
        ),
    ],
)
def test_oddities_are_counted(
    read: Callable[..., History], data: bytes, anomalies: dict[str, int], spans: int
) -> None:
    history = read(data)

    assert dict(history.anomalies) == anomalies
    assert len(history.spans()) == spans


def test_instants_are_points(read: Callable[..., History]) -> None:
    instant = b"\5" + begin0(4, b"now")[1:]

    history = read(header(0) + begin0(1) + instant + end1(9))

    points = history.points()
    assert (points.time_ns.tolist(), points.name.to_list()) == ([4000], ["now"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (header(1)[:20], "byte 20: the header has 32 bytes"),
        (header(2), r"byte 8: unsupported version 2 \(not one of"),
        (header(2, magic=AUTO), r"byte 8: unsupported version 2 \(not one of"),
        (header(1, 0.0), "byte 16: the duration of a tick is 0.0, not a positive"),
        (header(1, float("nan")), "byte 16: the duration of a tick is nan"),
        (header(1) + begin1(1) + b"\x55", "byte 53: unknown record type 85"),
        (header(3) + buffer3(begin3(1), b"\x55"), "byte 64: unknown record type 85"),
    ],
)
def test_a_file_that_is_not_a_spall_trace_is_rejected_with_its_byte(
    read: Callable[..., History], data: bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(data)


def test_lenient_reading_keeps_what_precedes_and_other_buffers(
    read: Callable[..., History],
) -> None:
    stream = read(header(1) + begin1(1) + end1(2) + b"\x55", lenient=True)
    buffers = read(
        header(3) + buffer3(begin3(1), end3(2), b"\x55") + buffer3(begin3(5), end3(6)),
        lenient=True,
    )

    assert (len(stream.spans()), dict(stream.anomalies)) == (1, {"bad_record": 1})
    assert (len(buffers.spans()), dict(buffers.anomalies)) == (2, {"bad_record": 1})


def test_a_file_cut_at_any_byte_is_read_or_refused(read: Callable[..., History]) -> None:
    for data in (
        header(1) + begin1(1, b"abc", b"xy") + end1(2),
        header(3) + buffer3(begin3(1, b"abc", b"xy"), end3(2)),
    ):
        for cut in range(9, len(data)):
            try:
                read(data[:cut])
            except InputError:
                assert cut < 32


def test_what_instants_carry_is_kept(read: Callable[..., History]) -> None:
    instant3 = b"\x05" + begin3(3, b"i", b"xy")[1:]
    instant1 = b"\x05" + begin1(3, b"i", b"xy")[1:]

    for data in (header(3) + buffer3(instant3), header(1) + instant1):
        points = read(data).points()
        assert [(points.name[row], points.arguments(row)) for row in range(len(points))] == [
            ("i", "xy")
        ]


def test_a_wrong_magic_is_reported_for_a_file_called_spall(read: Callable[..., History]) -> None:
    with pytest.raises(InputError, match=r"byte 0: a \.spall trace begins with 0xbadf00d"):
        read(header(1, magic=MAGIC + 1) + begin1(1))


def test_data_after_the_end_of_a_stream_are_counted(read: Callable[..., History]) -> None:
    spans = header(1) + begin1(1) + end1(2)

    found = [dict(read(spans + tail).anomalies) for tail in (b"\2", b"\2" + begin1(3))]

    assert found == [{}, {"trailing_text": 1}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("taken")


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.booleans(), st.sampled_from([0, 0, 0, 1])), max_size=60
    ),
    st.sampled_from([40, 70, 200]),
)
def test_spans_that_are_taken_before_others_end_are_nested_as_all_at_once(
    folder: Path, steps: list[tuple[int, bool, int]], block_bytes: int
) -> None:
    time, open_spans, data = 1, [0, 0], [header(1)]
    for number, (thread, begins, step) in enumerate(steps):
        time += step
        if begins:
            data.append(begin1(time, b"n%d" % number, tid=thread))
        elif open_spans[thread]:
            data.append(end1(time, tid=thread))
        open_spans[thread] = max(0, open_spans[thread] + (1 if begins else -1))

    path = folder / "x.spall"
    path.write_bytes(b"".join(data))

    def spans() -> list[tuple[object, ...]]:
        table = build(open_trace(path)).spans()
        names = table.name.to_list()
        above = [names[row] if row >= 0 else None for row in table.parent.tolist()]
        columns = (table.thread, table.start_ns, table.end_ns, table.depth, table.lane)
        return list(zip(names, above, *(column.tolist() for column in columns), strict=True))

    whole = spans()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("meantime.readers.spall.BLOCK_BYTES", block_bytes)
        patch.setattr("meantime.readers.spall.spall.SpallScanner", Eager)
        assert spans() == whole
