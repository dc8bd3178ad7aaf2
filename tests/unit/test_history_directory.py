from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import meantime
from meantime.errors import HistoryClosedError, HistoryError, InputError, OutputError
from meantime.history import HistoryBuilder
from meantime.history.directory import read as loading
from meantime.history.directory import upgrade as upgrading
from meantime.history.directory import write as directory
from meantime.history.directory.check import check, save
from meantime.history.directory.loaded import VERSION
from meantime.history.directory.manifest import checksummed_line
from meantime.history.directory.open import open_history
from meantime.history.directory.pyramids import open_pyramid, pack_pyramid
from meantime.model.clocks import Clock
from meantime.model.columns import Coded
from meantime.model.trace import State
from meantime.testing import history_from_spans, picture

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.mth"


def built(path: Path) -> Path:
    with HistoryBuilder(path) as builder:
        builder.modify_many([1, 2], [builder.quark("a")] * 2, Coded.of(["x", "y"]))
    return path


def test_all_that_is_known_is_there_again(path: Path) -> None:
    clock = Clock("monotonic", "host", "boot", anchors=((1, 2),))
    builder = HistoryBuilder(path, start_ns=-5, origin_ns=7, clock=clock)
    quark = builder.quark("a", "*/é")
    builder.modify(0, quark, 0.5, builder.tag({"pid": [1, "x"]}))
    builder.lanes("a/*", kind="counter", states=[State("s", 1, "red")], unit="B")
    catalogue = builder.contents.catalogue
    catalogue.metadata = replace(
        catalogue.metadata,
        title="t",
        bounds=(0, 9),
        descriptions={quark: "d"},
        names={quark: "n"},
        sort_keys={quark: 3},
        facts={"k": "v"},
        lost=[(1, 2)],
    )
    catalogue.anomalies.add("truncated", 2)
    code = builder.contents.catalogue.strings.codes(["p", "q"])
    builder.contents.events.add_points(np.array([3, 1]), np.array([1, 1], np.int32), code)
    builder.contents.events.add_flows(
        np.array([4]), np.array([0], np.int32), np.array([6]), np.array([1], np.int32), code[:1]
    )
    written = builder.close()

    read = meantime.open(path)

    assert read.built
    for fact in (
        "start_ns", "end_ns", "bounds", "clock", "title", "descriptions", "names", "sort_keys",
        "facts", "lost", "tags",
    ):  # fmt: skip
        assert getattr(read, fact) == getattr(written, fact)
    assert dict(read.anomalies) == {"truncated": 2}
    assert read.clock.utc_at_origin_ns == 7
    assert repr(read.lanes) == repr(written.lanes)
    assert read.attributes.path(quark) == ("a", "*/é")
    assert list(read.at(8)) == list(written.at(8))
    assert read.points().name.to_list() == ["q", "p"]
    assert read.flows().to_ns.tolist() == [6]


def test_spans_and_samples_are_kept_with_their_arguments(path: Path) -> None:
    spans = history_from_spans({"main": [("a", 0, 10), ("b", 2, 5)]}).spans()
    builder = HistoryBuilder(path)
    thread = builder.quark("main")
    names = builder.contents.catalogue.strings.codes(list(spans.name.names))
    offset = builder.contents.events.tables["spans"].text.add(b'{"x":1}')
    from meantime.model.stacks import StackTableBuilder  # noqa: PLC0415 - as above
    from meantime.model.trace import Arguments, Samples, Spans  # noqa: PLC0415 - used here alone

    rows = len(spans)
    builder.contents.events.add_spans(
        Spans(
            spans.start_ns,
            spans.end_ns,
            np.zeros(rows, np.int32),
            spans.name.codes,
            np.full(rows, -1, np.int32),
            np.zeros(rows, np.int32),
            np.zeros(rows, np.uint8),
            Arguments(np.full(rows, offset), np.array([7, 0], np.int32)),
        ),
        np.array([thread], np.int32),
        names,
        np.empty(0, np.int32),
    )
    stacks = StackTableBuilder()
    stack = stacks.add(["main", "read"])
    builder.contents.events.stacks = stacks.build()
    zero = np.zeros(1, np.int32)
    builder.contents.events.add_samples(
        Samples(np.array([3]), zero, np.array([stack], np.int32), np.array([5]), zero),
        np.array([thread], np.int32),
        names,
    )
    builder.close()

    read = open_history(path)

    assert read.spans().name.to_list() == ["a", "b"]
    assert read.spans().depth.tolist() == [0, 1]
    assert [read.spans().arguments(row) for row in (0, 1)] == ['{"x":1}', None]
    assert read.samples().weight.tolist() == [5]
    assert read.samples().stacks.frames_of(stack) == ["main", "read"]


def test_a_directory_that_exists_is_not_written_over(path: Path) -> None:
    path.mkdir()
    (path / "mine").write_text("x")

    with pytest.raises(OutputError, match="exists"):
        HistoryBuilder(path)
    with pytest.raises(OutputError, match="exists"):
        HistoryBuilder(built(path.with_name("y.mth")))


def test_a_failed_block_leaves_a_history_that_can_be_resumed(path: Path) -> None:
    with contextlib.suppress(ZeroDivisionError), HistoryBuilder(path) as builder:
        builder.modify(1, builder.quark("a"), "x")
        builder.modify(2, builder.quark("a"), 1 // 0)

    growing = open_history(path)
    assert not growing.built
    assert not growing.wait_built(0)
    with HistoryBuilder(path, resume=True) as builder:
        builder.modify(3, builder.quark("a"), "y")

    assert growing.wait_built(0)
    assert picture(growing).split() == ["a", ".xxy"]


def test_a_finished_history_cannot_be_resumed(path: Path) -> None:
    built(path)

    with pytest.raises(HistoryClosedError, match="closed"):
        HistoryBuilder(path, resume=True)


def test_a_build_with_delayed_changes_cannot_be_resumed(path: Path) -> None:
    HistoryBuilder(path, reorder_ns=5).flush()

    with pytest.raises(HistoryError, match="reorder_ns"):
        HistoryBuilder(path, resume=True, reorder_ns=5)


def test_a_history_without_its_log_cannot_be_resumed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meantime.history.store.Store.__init__.__defaults__", (2,))
    builder = HistoryBuilder(path)
    for time_ns in range(9):
        builder.modify(time_ns, builder.quark("a"), time_ns)
    builder.leave()
    for log in path.glob("tail-*.log"):
        log.write_bytes(b"MTLG")

    with pytest.raises(InputError, match="log"):
        HistoryBuilder(path, resume=True)
    assert open_history(path).end_ns < 9


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


def older(path: Path, *, closed: bool) -> Path:
    """Make a history as a version might have written it that kept strings as `texts`."""
    with HistoryBuilder(path) as builder:
        builder.modify(1, builder.quark("a"), "x")
        builder.modify(4, builder.quark("b"), "y")
        if not closed:
            builder.flush()
            shutil.copytree(path, path.with_name("open.mth"))
    place = path if closed else path.with_name("open.mth")
    lines = (place / "manifest").read_bytes().split(b"\n")[:-1]
    records = [json.loads(line[9:]) for line in lines]
    for record in records:
        if "strings" in record:
            record["texts"] = record.pop("strings")
    (place / "manifest").write_bytes(b"".join(map(checksummed_line, records)))
    return place


def rename_texts(record: dict[str, Any]) -> dict[str, Any]:
    return {"strings" if key == "texts" else key: value for key, value in record.items()}


def test_an_older_version_is_read_through_a_step_for_each_version(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = older(path, closed=True)
    before = contents(old)
    with pytest.raises(InputError, match=r"000000\.seg: .*is invalid"):
        picture(open_history(old))
    monkeypatch.setattr(loading, "VERSION", VERSION + 2)
    steps = {VERSION: rename_texts, VERSION + 1: lambda record: record}
    monkeypatch.setattr(upgrading, "UPGRADERS", steps)

    assert picture(open_history(old)).split() == ["a", ".xxxx", "b", "....y"]
    assert contents(old) == before
    del steps[VERSION + 1]
    with pytest.raises(InputError, match="is of version 3; this meantime reads 5 to 5: rebuild it"):
        open_history(old)


def test_an_unfinished_history_of_an_older_version_cannot_be_resumed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = older(path, closed=False)
    monkeypatch.setattr(upgrading, "UPGRADERS", {VERSION: rename_texts})
    monkeypatch.setattr(loading, "VERSION", VERSION + 1)
    monkeypatch.setattr("meantime.history.directory.resume.VERSION", VERSION + 1)

    assert picture(open_history(old)).split() == ["a", ".xxxx", "b", "....y"]
    with pytest.raises(HistoryError, match="version 3 of the format, and would continue in 4"):
        HistoryBuilder(old, resume=True)


def test_a_file_from_the_future_is_refused_with_both_versions(path: Path) -> None:
    built(path)
    text = json.dumps({"format": "meantime history", "version": VERSION + 1}).encode()
    (path / "manifest").write_bytes(b"%08x %s\n" % (zlib.crc32(text), text))

    with pytest.raises(InputError, match=r"version 4; this meantime reads up to 3"):
        open_history(path)


@pytest.mark.parametrize("text", ["", "{}\n", "00000000 {}\n"])
def test_a_file_that_is_not_a_manifest_is_rejected(path: Path, text: str) -> None:
    path.mkdir()
    with pytest.raises(InputError, match="no manifest"):
        open_history(path)
    (path / "manifest").write_text(text)

    with pytest.raises(InputError, match="manifest"):
        open_history(path)


def test_a_line_end_that_became_another_byte_is_damage_and_no_killed_build(path: Path) -> None:
    manifest = built(path) / "manifest"
    manifest.write_bytes(manifest.read_bytes()[:-1] + b"*")

    with pytest.raises(InputError, match=r"manifest: byte \d+: line \d+ is damaged"):
        open_history(path)


def test_a_missing_segment_is_named_and_those_before_it_can_be_saved(path: Path) -> None:
    built(path)
    (path / "segments" / "000000.seg").unlink()

    with pytest.raises(InputError, match=r"000000\.seg.*salvage"):
        open_history(path)
    saved = open_history(path, salvage=True)
    assert saved.start_ns == saved.end_ns


def test_a_full_disk_is_one_clear_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = HistoryBuilder(path)
    builder.modify(1, builder.quark("a"), "x")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match="No space left on device; the unfinished history in"):
        builder.close()
    assert not list(path.rglob("*.tmp"))


def test_an_unwritable_path_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(OutputError, match="file"):
        HistoryBuilder(tmp_path / "file" / "x.mth")


def test_a_tag_that_is_not_json_is_rejected_on_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "_LOG_EVERY_S", 0)
    builder = HistoryBuilder(path)
    builder.tag({"x": object()})

    with pytest.raises(HistoryError, match="JSON"):
        builder.flush()


_BUILD = """
import sys
from meantime.history import HistoryBuilder

builder = HistoryBuilder(sys.argv[1])
quark = builder.quark("counter")
for time_ns in range(10**9):
    builder.modify(time_ns, quark, time_ns)
    if time_ns % 1000 == 0:
        builder.flush()
        print(time_ns, flush=True)
"""


def test_a_killed_process_loses_nothing_that_was_flushed(path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _BUILD, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    printed = [int(process.stdout.readline()) for _ in range(5)]
    beside = open_history(path)
    seen = beside.state(0, printed[-1]).value
    process.kill()
    process.communicate()

    history = open_history(path)

    assert seen == printed[-1] == 4000
    assert history.end_ns > printed[-1]
    assert all(history.state(0, time_ns).value == time_ns for time_ns in range(printed[-1]))
    assert not history.built


@pytest.fixture
def counter(path: Path) -> Path:
    """A history with a pyramid: 20,000 values of one attribute."""
    with HistoryBuilder(path) as builder:
        quark = builder.quark("a")
        builder.modify_many(
            range(0, 20_000_000, 1000), [quark] * 20_000, [n % 9 for n in range(20_000)]
        )
    return path


def asked(path: Path) -> list[object]:
    history = open_history(path)
    shares = history.shares([0], bins=3)
    return [
        history.average(0, 5, 19_900_000),
        history.maximum(0, 0, 14_000_000),
        *shares.ns.tolist(),
    ]


def test_a_damaged_pyramid_changes_no_answer_and_is_named(
    counter: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pyramid = counter / "pyramid" / "000000.pyr"
    whole, answers = pyramid.read_bytes(), asked(counter)
    assert not caplog.messages

    for place in [*range(128), *range(128, len(whole), 197)]:
        damaged = bytearray(whole)
        damaged[place] ^= 1
        pyramid.write_bytes(damaged)
        caplog.clear()

        assert asked(counter) == answers
        assert "000000.pyr" in caplog.text
        with pytest.raises(InputError, match=r"000000\.pyr: byte \d+: .*may be removed"):
            check(counter)


def test_a_pyramid_that_is_cut_or_gone_or_another_s_changes_no_answer(
    counter: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pyramid = counter / "pyramid" / "000000.pyr"
    whole, answers = pyramid.read_bytes(), asked(counter)
    other = pack_pyramid(open_pyramid(pyramid, int.from_bytes(whole[8:12], "little")), 1)

    for text in (b"", whole[:100], whole[:-1], whole + b"\0", b"".join(other)):
        pyramid.write_bytes(text)

        assert asked(counter) == answers
        with pytest.raises(InputError, match=r"000000\.pyr"):
            check(counter)
    caplog.clear()
    pyramid.unlink()

    assert asked(counter) == answers
    assert not caplog.messages
    assert check(counter) == (1, 20_000)


def test_a_pyramid_of_an_older_version_is_left_alone(
    counter: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pyramid = counter / "pyramid" / "000000.pyr"
    answers = asked(counter)
    pyramid.write_bytes(b"MTPYR\0\0\1" + pyramid.read_bytes()[8:])

    assert asked(counter) == answers
    assert not caplog.messages
    assert check(counter) == (1, 20_000)


def test_a_pyramid_that_would_be_too_large_now_is_no_damage(
    counter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meantime.history.pyramid._SEGMENT_BYTES", 1000)

    assert check(counter) == (1, 20_000)


def test_a_pyramid_with_other_content_is_found(counter: Path) -> None:
    pyramid = counter / "pyramid" / "000000.pyr"
    checksum = int.from_bytes(pyramid.read_bytes()[8:12], "little")
    arrays = {name: array.copy() for name, array in open_pyramid(pyramid, checksum).items()}
    arrays["times"][0] += 1
    pyramid.write_bytes(b"".join(pack_pyramid(arrays, checksum)))

    with pytest.raises(InputError, match="does not match its segment"):
        check(counter)


@pytest.fixture
def unfinished(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An unfinished history of segments, a log of 40 blocks, and late changes."""
    monkeypatch.setattr("meantime.history.store.Store.__init__.__defaults__", (50,))
    builder = HistoryBuilder(path)
    quark, other = builder.quark("a"), builder.quark("late")
    for time_ns in range(140):
        builder.modify(time_ns, quark, time_ns)
    builder.flush()
    for time_ns in range(40):
        builder.modify(time_ns, other, time_ns)
        builder.modify(200 + time_ns, quark, time_ns)
        builder.flush()
    return path


def test_a_cut_manifest_is_not_taken_for_a_killed_build(counter: Path) -> None:
    manifest = counter / "manifest"
    whole = manifest.read_bytes()

    for length in range(whole.index(b"\n") + 1, len(whole) - 1, 9):
        manifest.write_bytes(whole[:length])

        with pytest.raises(InputError, match=r"manifest: byte \d+: is cut, or the log"):
            open_history(counter)
        with pytest.raises(InputError, match="manifest"):
            check(counter)
        assert "manifest" in open_and_tell(counter)


def open_and_tell(path: Path) -> str:
    saved = path.with_name(f"saved-{(path / 'manifest').stat().st_size}.mth")
    return " ".join(save(path, saved))


@pytest.mark.parametrize("name", ["late.log", "tail-000002.log"])
def test_logs_count_up_to_the_damage_which_is_named(
    unfinished: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = unfinished / name
    whole, end_ns = log.read_bytes(), open_history(unfinished).end_ns
    assert check(unfinished)
    assert not caplog.messages

    for place in range(len(whole) // 2, len(whole) - 1, 199):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        log.write_bytes(damaged)
        caplog.clear()

        left = open_history(unfinished)

        assert 190 < left.end_ns < end_ns
        # Where one log ends early, so does what depends on it in the other.
        late = left.state(left.quark("late"), 39).value or 0
        assert isinstance(late, int)
        assert late <= left.end_ns - 200
        assert f"{name}: byte " in caplog.text
        with pytest.raises(InputError, match=rf"{name}: byte \d+: is damaged"):
            check(unfinished)


@pytest.mark.parametrize("behind", [1, 40])
def test_a_last_block_that_is_there_and_wrong_is_damage(unfinished: Path, behind: int) -> None:
    log = unfinished / "tail-000002.log"
    damaged = bytearray(log.read_bytes())
    damaged[-behind] ^= 4
    log.write_bytes(damaged)

    with pytest.raises(InputError, match=r"tail-000002\.log: byte \d+: is damaged"):
        check(unfinished)


def test_an_unfinished_last_block_is_not_damage(unfinished: Path) -> None:
    log = unfinished / "tail-000002.log"
    whole = log.read_bytes()

    for cut in (1, 9, 30):
        log.write_bytes(whole[:-cut])

        assert check(unfinished)


def test_the_position_may_be_set_again_before_going_on(path: Path) -> None:
    def feed(builder: HistoryBuilder) -> None:
        quark = builder.quark("a")
        for part in range(builder.position or 0, 3):
            builder.position = part
            builder.modify(10 * part, quark, part)
            builder.modify(10 * part + 5, quark, None)

    killed = HistoryBuilder(path)
    killed.position = 0
    killed.modify(0, killed.quark("a"), 0)
    killed.leave()

    resumed = HistoryBuilder(path, resume=True)
    feed(resumed)
    whole = HistoryBuilder()
    feed(whole)

    assert list(resumed.close().intervals([0])) == list(whole.close().intervals([0]))


def test_a_build_killed_just_after_it_went_on_still_knows_which_rows_were_done(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meantime.history.store.Store.__init__.__defaults__", (2,))
    times = list(range(9))

    def feed(builder: HistoryBuilder, *, resume: bool) -> None:
        if not resume:
            builder.position = 0
        builder.modify_many(times, [builder.quark("a")] * 9, times)

    feed(HistoryBuilder(path), resume=False)
    killed = [path]
    monkeypatch.setattr(directory, "_LOG_EVERY_S", -1.0)
    for number in range(2):
        again = shutil.copytree(killed[-1], path.with_name(f"{number}.mth"))
        builder = HistoryBuilder(again, resume=True)
        writer = builder._directory
        assert writer
        writer.tick(builder.contents.store.sealer)
        writer.leave()
        killed.append(again)
    resumed = HistoryBuilder(killed[-1], resume=True)
    feed(resumed, resume=True)

    history = resumed.close()

    assert [interval.value for interval in history.intervals([0])] == times


def test_floats_that_are_all_null_beside_a_large_integer_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meantime.history.store.Store.__init__.__defaults__", (1,))
    with HistoryBuilder(tmp_path / "x.mth") as builder:
        floating, large = builder.quark("f"), builder.quark("i")
        builder.modify(0, floating, 0.0)
        builder.modify(24, floating, None)
        builder.modify(24, large, 2**63 - 1)
        builder.modify(30, large, None)

    history = open_history(tmp_path / "x.mth")

    assert [history.state(quark, 25).value for quark in (floating, large)] == [None, 2**63 - 1]
