"""Histories on disk whose checksums are right and whose content is not: said, and no crash."""

from __future__ import annotations

import contextlib
import json
import shutil
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.cli import main
from meantime.errors import InputError, MeantimeError
from meantime.history import HistoryBuilder
from meantime.history.changes import Changes
from meantime.history.directory.check import check
from meantime.history.directory.manifest import checksummed_line
from meantime.history.directory.open import open_history
from meantime.history.directory.packed import pack_bytes, pack_numbers, pack_signed
from meantime.history.directory.pyramids import open_pyramid, pack_pyramid
from meantime.history.directory.segments import _HEADER, open_segment, packed_segment
from meantime.history.directory.tail_log import blocks, read_blocks
from meantime.history.ingest import _Tables
from meantime.history.segment import Segment
from meantime.model.attributes import PathTable
from meantime.model.stacks import StackTableBuilder
from meantime.model.trace import Points, Samples, Spans, StateChanges, Trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

Record = dict[str, Any]
Sections = dict[str, np.ndarray[Any, Any]]
ROWS = 1000


def int32s(*numbers: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.array(numbers, np.int32)


def pack_uint64s(*numbers: int) -> str:
    return pack_numbers(np.array(numbers, np.uint64))


def int64s(*numbers: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of every type of value, with tags, a pyramid, and all tables."""
    path = tmp_path_factory.mktemp("whole") / "x.mth"
    builder = HistoryBuilder(path)
    text, number, real, large = (builder.quark(name) for name in ("s", "i", "f", "l"))
    builder.contents.catalogue.strings.codes(["x", "y"])
    tags = [builder.tag({"n": n}) for n in range(4)]
    for n in range(ROWS):
        builder.modify(10 * n, text, "xy"[n % 2], tags[n % 4])
        builder.modify(10 * n, number, n % 7)
        builder.modify(10 * n, real, float(n % 5))
        builder.modify(10 * n, large, (n % 3) << 40)
    trace = Trace(
        "t",
        "test",
        iter(
            [
                StateChanges(np.array([1]), int32s(0), int32s(0), int32s(-1)),
                Spans(
                    np.array([0, 2, 20]),
                    np.array([10, 5, 30]),
                    int32s(0, 0, 0),
                    int32s(0, 1, 0),
                    int32s(-1, -1, -1),
                    int32s(0, 0, 0),
                    np.zeros(3, np.uint8),
                ),
                Samples(
                    np.array([3, 4]), int32s(0, 0), int32s(0, 1), np.array([1, 1]), int32s(0, 0)
                ),
                Points(np.array([3, 5, 9]), int32s(0, 0, 0), int32s(0, 1, 1), int32s(-1, -1, 0)),
            ]
        ),
        paths=PathTable([("main",)]),
        values=["x", "y"],
    )
    stacks = StackTableBuilder()
    stacks.add(["main", "read"])
    trace.stacks = stacks.build()
    _put(builder, trace)
    builder.close()
    assert check(path) == (1, 4 * ROWS + 1)
    return path


def _put(builder: HistoryBuilder, trace: Trace) -> None:
    tables = _Tables(builder, trace, None)
    tables.grow()
    tables.put_all()


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "x.mth")


def manifest(path: Path, change: Callable[[list[Record]], object]) -> None:
    """Change the records of a manifest, and give each line its checksum."""
    lines = (path / "manifest").read_bytes().splitlines()
    records = [json.loads(line[9:]) for line in lines]
    change(records)
    (path / "manifest").write_bytes(b"".join(map(checksummed_line, records)))


def damage_segment(path: Path, change: Callable[[Sections], object]) -> None:
    """Change a segment's sections or head, and make all checksums right again."""
    file = path / "segments" / "000000.seg"
    segment = open_segment(file)
    segment.load()
    index = {
        section.name: segment.sections[section.name].copy()
        for section in segment.head.index_sections()
    }
    copy = Segment(segment.head, index, segment.rows.copy())
    change(copy.sections)
    header, packed = packed_segment(copy)
    file.write_bytes(header + packed + copy.rows.tobytes())
    checksum = int.from_bytes(header[-4:], "little")

    def tell(records: list[Record]) -> None:
        records[1]["checksum"] = checksum

    manifest(path, tell)


def whole_of(view: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the buffer that an array is a view of."""
    while isinstance(view.base, np.ndarray):
        view = view.base
    return view


def questions(path: Path, *, lenient: bool = False) -> None:
    """Ask everything of a history."""
    history = open_history(path, lenient=lenient)
    quarks = np.arange(len(history.attributes), dtype=np.int32)
    middle = (history.start_ns + history.end_ns) // 2
    history.at(middle)
    history.states(quarks, [middle] * len(quarks)).value.to_list()
    history.sample(quarks, [history.start_ns, middle]).rows()
    list(history.intervals(quarks))
    history.intervals(quarks[:1], middle)
    for bins in (1, 7):
        history.shares(quarks, bins=bins).value.to_list()
        history.dominant(quarks, bins=bins).value.to_list()
    for quark in quarks.tolist():
        with contextlib.suppress(TypeError):
            history.average(quark, history.start_ns, history.end_ns)
    spans = history.spans()
    assert len(spans.name.to_list()) == len(spans.self_ns)
    spans.category.to_list()
    [spans.arguments(row) for row in range(len(spans))]
    samples = history.samples()
    [samples.stacks.frames_of(stack) for stack in samples.stack.tolist()]
    history.points().name.to_list()
    history.flows().name.to_list()
    assert isinstance(history.lanes, list)


def left_out(path: Path, caplog: pytest.LogCaptureFixture) -> str:
    """Return what `check` says of a damaged file; questions raise, and commands do without it."""
    with pytest.raises(InputError) as report:
        check(path)
    with pytest.raises(InputError):
        questions(path)
    questions(path, lenient=True)
    caplog.clear()
    for command in (["stats", "--by", "state"], ["statemap", "-n"], ["findings"]):
        with contextlib.suppress(SystemExit):
            main([*command, str(path)])
        assert caplog.text.count("are unknown)") == 1
        caplog.clear()
    return str(report.value).removeprefix(f"{path}/")


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what `check` says; all questions and commands say something too."""
    with pytest.raises(InputError) as report:
        check(path)
    with pytest.raises(InputError):
        questions(path)
    for command in (["info"], ["stats", "--by", "state"], ["statemap", "-n"]):
        with pytest.raises(SystemExit) as left:
            main([*command, str(path)])
        assert left.value.code == 1
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        assert lines[0].startswith(f"meantime: {path}")
    return str(report.value).removeprefix(f"{path}/")


def put(section: str, row: int, number: int) -> Callable[[Sections], None]:
    def change(sections: Sections) -> None:
        sections[section][row] = number

    return change


def row_bits(row: int, number: int) -> Callable[[Sections], None]:
    """Set bits of a row, which has 4 bytes: above the payload is the time."""

    def change(sections: Sections) -> None:
        width = (len(sections["rows"]) - 8) // (4 * ROWS + 1)
        packed = int.from_bytes(sections["rows"][width * row : width * (row + 1)], "little")
        sections["rows"][width * row : width * (row + 1)] = list(
            (packed | number).to_bytes(width, "little")
        )

    return change


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (put("quarks", 0, -1), "the index is wrong: quarks"),
        (put("quarks", 2, 1), "the index is wrong: quarks"),
        (put("quarks", 4, 2**31 - 1), "has attributes that are not there"),
        (put("offsets", 0, 1), "the index is wrong: offsets"),
        (put("offsets", 2, 4_000_000_000), "the index is wrong: offsets"),
        (put("offsets", 5, 4 * ROWS), "the index is wrong: offsets"),
        (put("carry_start", 1, 2**62), "the index is wrong: carry_start"),
        (put("form", 1, 4), "the index is wrong: form"),
        (put("form", 0, 3), "the index is wrong: form"),
        (put("form", 3, 0), "the index is wrong: form"),
        (put("form", 0, 1), "is invalid: the rows of the attribute 0"),
        (put("origin", 2, 2**40), "the index is wrong: origin"),
        (row_bits(5, 0b111), "is invalid: the rows of the attribute 0"),
        (row_bits(5, 0b111 << 3), "is invalid: the rows of the attribute 0"),
        (row_bits(2, 0xFF << 16), "is invalid: the rows of the attribute 0"),
        (row_bits(ROWS - 1, 0xFF << 16), "is invalid: the rows of the attribute 0"),
    ],
)
def test_a_segment_that_cannot_be_is_refused_by_all(
    path: Path, change: Callable[[Sections], None], what: str, caplog: pytest.LogCaptureFixture
) -> None:
    damage_segment(path, change)

    report = left_out(path, caplog)

    assert report.startswith("segments/000000.seg: ")
    assert what in report


@pytest.mark.parametrize(
    ("meta", "word", "what"),
    [
        (0, 2, "carry: a string that does not exist"),
        (0, -1, "carry: a string that does not exist"),
        (11, 0, "carry: a tag that is not defined"),
    ],
)
def test_a_carried_state_that_cannot_be_is_refused(
    path: Path, meta: int, word: int, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    def change(sections: Sections) -> None:
        sections["carry_start"][0] = -5
        sections["carry_meta"][0], sections["carry_word"][0] = meta, word

    damage_segment(path, change)

    assert f"is invalid: {what}; " in left_out(path, caplog)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("base_ns", -(2**63)),
        ("last_ns", 2**63 - 1),
        ("last_ns", -1),
        ("changes", -1),
        ("runs", 0),
        ("runs", 2**40),
        ("numbers", -3),
        ("width", 0),
        ("width", 9),
        ("code_bits", -1),
        ("code_bits", 60),
        ("payload_bits", 64),
        ("payload_bits", 2),
    ],
)
def test_a_head_that_cannot_be_is_refused_by_all(
    path: Path, name: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    file = path / "segments" / "000000.seg"
    segment = open_segment(file)
    values: dict[str, Any] = {name: number}
    head = segment.head._replace(**values)
    flags = head.wide | head.numeric << 1 | head.full << 2
    old = _HEADER.unpack(file.read_bytes()[:128])
    header = _HEADER.pack(old[0], *head[:8], flags, *old[10:-1], 0)[:-4]
    header += zlib.crc32(header).to_bytes(4, "little")
    file.write_bytes(header + file.read_bytes()[128:])
    checksum = int.from_bytes(header[-4:], "little")
    manifest(path, lambda records: records[1].update(checksum=checksum))

    assert left_out(path, caplog).startswith(
        f"segments/000000.seg: byte 0: the header is wrong: {name}; "
    )


def packed_column(name: str, part: str, value: object) -> Callable[[list[Record]], object]:
    """Replace a column of what a line adds."""
    return lambda records: records[1][name].update({part: value})


def closed_extremes(part: str, value: object) -> Callable[[list[Record]], object]:
    """Replace a column of the extremes."""
    return lambda records: records[-1]["closed"]["extremes"].update({part: value})


def drop(name: str) -> Callable[[list[Record]], object]:
    return lambda records: records[1].pop(name)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda records: records[1].update(segment="../../x"), "segment is '../../x'"),
        (lambda records: records[1].update(segment=5), "segment is 5"),
        (lambda records: records[1].update(checksum=-1), "checksum is -1"),
        (lambda records: records[1].update(boundary_ns=2**63), "boundary_ns is 92233720368547758"),
        (lambda records: records[1].update(boundary_ns=0), "boundary_ns is 0, before the segment"),
        (lambda records: records[1].update(replaced="3"), "replaced is '3'"),
        (drop("checksum"), "checksum is None"),
        (packed_column("attributes", "parents", pack_uint64s(2, 1, 1, 1, 1)), "its parent"),
        (packed_column("attributes", "parents", pack_uint64s(0, 1, 1, 1, 1)), "its parent"),
        (packed_column("attributes", "parents", pack_uint64s(1, 3, 1, 1, 1)), "its parent"),
        (packed_column("attributes", "parents", pack_uint64s(1, 2**64 - 1, 1, 1, 1)), "its parent"),
        (packed_column("attributes", "parents", pack_uint64s(1, 1)), "cannot be 5 numbers"),
        (packed_column("attributes", "parents", pack_uint64s(*[1] * 6)), "5 numbers is damaged"),
        (packed_column("attributes", "parents", 5), "parents is not a text"),
        (packed_column("attributes", "parents", "="), "padding"),
        (packed_column("attributes", "count", -1), "count is -1"),
        (packed_column("attributes", "count", 2**31 - 1), "cannot be 2147483647 numbers"),
        (packed_column("attributes", "codes", pack_uint64s(0, 2, 0, 0, 0)), "has no name"),
        (packed_column("attributes", "codes", pack_uint64s(0, 1, 0, 0, 0)), "more names than"),
        (packed_column("attributes", "sizes", pack_uint64s(*[2**62] * 5)), "are cut"),
        (packed_column("attributes", "sizes", pack_uint64s(0, 0, 0, 0, 0)), "more names than"),
        (packed_column("attributes", "different", 4), "4 numbers is damaged"),
        (packed_column("attributes", "names", pack_bytes(b"\xffifl" + b"main")), "decode byte"),
        (packed_column("attributes", "names", pack_bytes("sé".encode() + b"lmain")), "not UTF-8"),
        (lambda records: records[1].update(attributes=[]), "attributes are not columns"),
        (closed_extremes("quarks", pack_signed(int64s(0, 2**20))), "should be below 5"),
        (closed_extremes("quarks", pack_signed(int64s(0, 2**30))), "2 numbers is damaged"),
        (closed_extremes("quarks", pack_signed(int64s(1, 2))), "should be below 5"),
        (
            closed_extremes("above", pack_signed(int64s(0, -(2**63)))),
            "is less than its least",
        ),
        (lambda records: records[1].update(strings=["x", "x"]), "a string is defined twice: 'x'"),
        (lambda records: records[1].update(strings="xy"), "strings is not a list of str: 'xy'"),
        (lambda records: records[1]["tags"][0].__setitem__(0, -1), "a tag is -1"),
        (lambda records: records[1]["tags"][0].__setitem__(0, 2**40), "a tag is 1099511627776"),
        (lambda records: records[1]["tags"][0].__setitem__(1, []), "a tag is 0"),
        (packed_column("kinds", "quarks", pack_signed(int64s(0, 0, 0, 0, 1))), "should be below 5"),
        (packed_column("kinds", "kinds", pack_bytes(b"\1\2\3\4\1")), "a type is unknown"),
        (packed_column("kinds", "kinds", pack_bytes(b"\1\2\3")), "types of attributes are cut"),
        (lambda records: records[2]["closed"].update(end_ns=3), "not all changes are in the range"),
        (lambda records: records[2]["closed"].update(start_ns=-(2**63)), "start_ns is -92"),
        (lambda records: records[2]["closed"].update(start_ns=0.5), "start_ns is 0.5"),
        (lambda records: records[2].update(closed=[]), "it is neither of a segment nor the last"),
        (lambda records: records.append(records[2]), "it comes after the history was closed"),
        (lambda records: records[2]["closed"]["tables"][0].pop(), "not enough values to unpack"),
        (lambda records: records[2]["closed"]["tables"][0].__setitem__(2, -8), "rows is -8"),
    ],
)
def test_a_manifest_that_cannot_be_is_refused_by_all(
    path: Path,
    change: Callable[[list[Record]], None],
    what: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    manifest(path, change)

    report = refused(path, capsys)

    assert report.startswith("manifest: byte ")
    assert what in report


@pytest.mark.parametrize("text", [b"[]", b"3", b"[" * 10_000, b"{", b"\xff"])
def test_a_line_that_is_not_a_record_is_rejected(
    path: Path, text: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with (path / "manifest").open("ab") as file:
        file.write(b"%08x %s\n" % (zlib.crc32(text), text))

    assert refused(path, capsys).startswith("manifest: byte ")


def test_a_path_that_is_there_twice_is_found_by_check(path: Path) -> None:
    manifest(path, packed_column("attributes", "names", pack_bytes(b"sisl" + b"main")))

    assert open_history(path).quark("s") == 0
    with pytest.raises(InputError, match="manifest: is invalid: the attribute 's' is there twice"):
        check(path)


@pytest.mark.parametrize("version", [0, "1", None, 1.5])
def test_a_version_that_cannot_be_is_refused(path: Path, version: object) -> None:
    manifest(path, lambda records: records[0].update(version=version))

    with pytest.raises(InputError, match=rf"manifest: byte 0: is of version {version!r}$"):
        open_history(path)


def column(path: Path, name: str, row: int, number: int) -> None:
    """Change a number of a table's column, and its checksum."""
    data = bytearray((path / "tables").read_bytes())

    def change(records: list[Record]) -> None:
        described = next(each for each in records[-1]["closed"]["tables"] if each[0] == name)
        kind, rows, offset = np.dtype(described[1]), described[2], described[3]
        array = np.frombuffer(data, kind, rows, offset)
        array[row] = number
        described[4] = zlib.crc32(array.tobytes())

    manifest(path, change)
    (path / "tables").write_bytes(data)


@pytest.mark.parametrize(
    ("name", "row", "number"),
    [
        ("points.time_ns", 0, 2**62),
        ("points.quark", 0, 99),
        ("points.name", 0, -1),
        ("flows.from_quark", 0, -1),
        ("flows.to_quark", 0, 2**30),
        ("flows.name", 0, 2),
        ("flows.to_ns", 0, 2**63 - 1),
        ("spans.threads", 0, 99),
        ("spans.offsets", 0, 1),
        ("spans.offsets", 1, 2**40),
        ("spans.start_ns", 1, 11),
        ("spans.end_ns", 1, -1),
        ("spans.end_ns", 0, 2**63 - 1),
        ("spans.name", 0, 2),
        ("spans.name", 0, -1),
        ("spans.category", 0, -2),
        ("spans.depth", 1, 2**31 - 1),
        ("spans.depth", 0, -1),
        ("spans.lane", 0, 255),
        ("spans.parent", 1, 1),
        ("spans.parent", 0, -2),
        ("spans.parent", 1, 2**30),
        ("samples.time_ns", 0, 2**62),
        ("samples.thread", 0, -1),
        ("samples.stack", 1, 2),
        ("samples.event", 0, 5),
        ("samples.cpu", 0, -9),
        ("stacks.parent", 0, 0),
        ("stacks.parent", 1, -2),
        ("stacks.frame", 0, 2),
        ("stacks.frames", 0, 0),
    ],
)
def test_a_column_that_cannot_be_is_refused_when_it_is_used(
    path: Path, name: str, row: int, number: int
) -> None:
    column(path, name, row, number)

    for used in (check, questions):
        with pytest.raises(InputError, match="tables: is invalid: "):
            used(path)


def test_a_damaged_column_does_not_prevent_answers_from_others(path: Path) -> None:
    column(path, "spans.name", 0, 2)

    history = open_history(path)

    assert history.spans().end_ns.tolist() == [10, 5, 30]
    with pytest.raises(InputError, match=r"tables: is invalid: spans\.name"):
        _ = history.spans().name


@pytest.mark.parametrize("kind", ["|O", "<f8", "<i2", "nonsense", "<M8[ns]"])
def test_a_column_of_another_type_is_refused(
    path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    manifest(path, lambda records: records[-1]["closed"]["tables"][0].__setitem__(1, kind))

    assert left_out(path, caplog) == f"tables: the column points.time_ns is of the type {kind}"


@pytest.mark.parametrize(
    ("name", "row", "number"),
    [
        ("timed_run", 0, -1),
        ("timed_run", 0, 99),
        ("step", 0, 5),
        ("step", 0, 60),
        ("value_offset", 1, 60000),
        ("values", 0, 1000),
        ("values", 0, 2),
        ("time_offset", 1, 60000),
        ("times", 0, 2**31),
        ("times", -1, 0),
        ("celled_run", 0, 0),
        ("cell_offset", 1, 60000),
    ],
)
def test_a_pyramid_that_cannot_be_is_named_and_changes_no_answer(
    tmp_path: Path, name: str, row: int, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "p.mth"
    with HistoryBuilder(path) as builder:
        text, number_quark = builder.quark("s"), builder.quark("n")
        for n in range(20_000):
            builder.modify(10**6 * n, text, "xyz"[n % 3])
            builder.modify(10**6 * n, number_quark, n * 2**33)
    before = open_history(path)
    answers = before.shares([0], bins=3).ns.tolist(), before.average(1, 5, 19 * 10**9)
    pyramid = path / "pyramid" / "000000.pyr"
    checksum = int.from_bytes(pyramid.read_bytes()[8:12], "little")
    arrays = {key: array.copy() for key, array in open_pyramid(pyramid, checksum).items()}
    arrays[name][row] = number
    pyramid.write_bytes(b"".join(pack_pyramid(arrays, checksum)))

    after = open_history(path)

    assert (after.shares([0], bins=3).ns.tolist(), after.average(1, 5, 19 * 10**9)) == answers
    assert "000000.pyr: byte 0: is invalid: " in caplog.text
    with pytest.raises(InputError, match=r"000000\.pyr: byte 0: is invalid: "):
        check(path)


def test_a_query_checks_the_segments_that_its_answer_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meantime.history.store.Store.__init__.__defaults__", (4,))
    path = tmp_path / "x.mth"
    with HistoryBuilder(path) as builder:
        rare, busy = builder.quark("rare"), builder.quark("busy")
        builder.modify(0, rare, "x")
        for time_ns in range(1, 20):
            builder.modify(time_ns, busy, "xy"[time_ns % 2])
        builder.modify(20, rare, "y")
    segments = sorted((path / "segments").iterdir())
    assert len(segments) >= 4
    whole = {file: file.read_bytes() for file in segments}

    def asked(damaged: Path, quark: int, time_ns: int) -> object:
        for file, content in whole.items():
            file.write_bytes(content)
        data = bytearray(whole[damaged])
        data[-64] ^= 1  # the first of the rows, which are the last section
        damaged.write_bytes(data)
        try:
            return open_history(path).state(quark, time_ns).value
        except InputError as error:
            return str(error)

    middle = 10
    # In the segment of the time itself, also where it begins before the time.
    assert "000000.seg" in str(asked(segments[0], rare, 2))
    assert "the rows are damaged" in str(asked(segments[0], rare, 2))
    # The state comes from the first segment; where only its end is unknown, it ends there.
    assert "000000.seg" in str(asked(segments[0], rare, middle))
    assert asked(segments[-1], rare, middle) == "x"
    last = open_history(path)
    assert last.state(rare, middle).end_ns == last.damage[0].start_ns == 20
    # What has nothing to do with the answer is not read.
    assert asked(segments[0], busy, middle) == "x"


def test_what_a_build_resumes_from_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meantime.history.store.Store.__init__.__defaults__", (4,))
    path = tmp_path / "x.mth"
    builder = HistoryBuilder(path)
    quark = builder.quark("a")
    for time_ns in range(20):
        builder.modify(time_ns, quark, "xy"[time_ns % 2])
    builder.flush()
    copy = shutil.copytree(path, tmp_path / "copy.mth")
    last = max((copy / "segments").iterdir())
    data = bytearray(last.read_bytes())
    data[-64] ^= 1
    last.write_bytes(data)

    for opening in (open_history, lambda path: HistoryBuilder(path, resume=True)):
        with pytest.raises(InputError, match=f"{last.name}: .*the rows are damaged"):
            opening(copy)


def log_blocks(path: Path, change: Callable[[Record, Sections], None]) -> None:
    """Change each record and its changes in the log of an unfinished history."""
    (log,) = path.glob("tail-*.log")
    text = b""
    for entry in list(read_blocks(log)):
        columns = {name: column.copy() for name, column in entry.changes._asdict().items()}
        change(entry.record, columns)
        text += b"".join(blocks(entry.record, Changes(**columns)))
    log.write_bytes(text)


def set_number(column: str, number: int) -> Callable[[Record, Sections], None]:
    def change(record: Record, columns: Sections) -> None:
        del record
        columns[column][-1:] = number

    return change


def set_record(**members: object) -> Callable[[Record, Sections], None]:
    return lambda record, _: record.update(members)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (set_number("quark", 9), "a change of no attribute"),
        (set_number("quark", -1), "a change of no attribute"),
        (set_number("time_ns", -(2**63)), "a change at a time that does not fit"),
        (set_number("time_ns", -5), "a: a change at -5 ns comes after one at"),
        (set_number("word", 7), "a string that does not exist"),
        (set_record(late_bytes=-1), "late_bytes is -1"),
        (set_record(replaced=None), "replaced is None"),
        (set_record(capacity=2**50), "capacity is 1125899906842624"),
        (set_record(done=[1]), "not enough values to unpack"),
        (set_record(done=[-1, 0]), "done is -1, 0"),
        (set_record(later=[[0, 9, 1, "modify"]]), "quark is 9"),
        (set_record(later=[[0, 0, [], "modify"]]), r"later is \[0, 0, \[\], 'modify'\]"),
        (set_record(later=[[0, 0, 1, "update"]]), "later is"),
        (
            set_record(
                kinds={"count": 1, "quarks": pack_signed(int64s(0)), "kinds": pack_bytes(b"\x09")}
            ),
            "a type is unknown",
        ),
    ],
)
def test_a_log_that_cannot_be_is_refused(
    tmp_path: Path, change: Callable[[Record, Sections], None], what: str
) -> None:
    path = tmp_path / "x.mth"
    builder = HistoryBuilder(path)
    quark = builder.quark("a")
    for time_ns in range(3):
        builder.modify(time_ns, quark, "xy"[time_ns % 2])
    builder.flush()
    copy = shutil.copytree(path, tmp_path / "copy.mth")
    log_blocks(copy, change)

    for opening in (open_history, check, lambda path: HistoryBuilder(path, resume=True)):
        with pytest.raises(InputError, match=what):
            opening(copy)


@pytest.mark.parametrize("sizes", [(2**32 - 1, 0), (0, 2**32 - 1)])
def test_a_block_longer_than_its_log_is_not_read(tmp_path: Path, sizes: tuple[int, int]) -> None:
    path = tmp_path / "x.mth"
    builder = HistoryBuilder(path)
    builder.modify(1, builder.quark("a"), "x")
    builder.flush()
    copy = shutil.copytree(path, tmp_path / "copy.mth")
    (log,) = copy.glob("tail-*.log")
    with log.open("ab") as file:
        file.write(b"MTLG" + np.array([*sizes, 0], np.uint32).tobytes())

    assert open_history(copy).end_ns == 2


def test_facts_that_cannot_be_read_are_left_out_and_counted(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def change(records: list[Record]) -> None:
        facts = next(record for record in records if "facts" in record)["facts"]
        facts.update(lanes=[{"pattern": 5}], title=7, clock=None, lost=[[3, 1]], sort_keys=[[9, 9]])
        del facts["names"]

    manifest(path, change)

    history = open_history(path)

    assert history.title is None
    assert history.lost == []
    assert dict(history.anomalies) == {"unreadable_fact": 6}
    assert "cannot be read: title, clock, lanes, names, sort_keys, lost" in caplog.text
    assert check(path)


@settings(max_examples=60)
@given(data=st.data())
def test_bytes_with_right_checksums_are_answers_or_an_error(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = shutil.copytree(whole, tmp_path_factory.mktemp("any") / "x.mth")
    file = path / "segments" / "000000.seg"
    file_bytes, header_bytes = file.stat().st_size, 128
    places = st.integers(header_bytes, file_bytes - 1) | st.integers(header_bytes, 400)
    bytes_ = data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=4))
    damaged = bytearray(file.read_bytes())
    for place, byte in bytes_:
        damaged[place] = byte
    fields = list(_HEADER.unpack(damaged[:header_bytes]))
    rows_at = file_bytes - open_segment(file).head.row_bytes()
    fields[10] = zlib.crc32(damaged[header_bytes:rows_at])
    fields[11] = zlib.crc32(damaged[rows_at:])
    header = _HEADER.pack(*fields[:-1], 0)[:-4]
    header += zlib.crc32(header).to_bytes(4, "little")
    file.write_bytes(header + damaged[header_bytes:])
    checksum = int.from_bytes(header[-4:], "little")
    manifest(path, lambda records: records[1].update(checksum=checksum))

    with contextlib.suppress(MeantimeError):
        questions(path)
    shutil.rmtree(path.parent)
