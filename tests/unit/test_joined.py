"""Joined histories: names, offsets, growth, files, and hosts that something is wrong with."""

from __future__ import annotations

import json
import os
import pickle
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import meantime
from meantime.errors import (
    HistoryError,
    InputError,
    OutputError,
    TimeRangeError,
    UsageError,
)
from meantime.history import HistoryBuilder
from meantime.history.directory.open import open_history as open_directory
from meantime.model.clocks import Clock
from meantime.query.aligning import Clocked, Message, align_all
from meantime.query.critical_path import critical_path, scheduled_threads
from meantime.query.durations import span_statistics
from meantime.query.findings import findings
from meantime.query.groups import group_statistics
from meantime.query.scheduling import thread_scheduling
from meantime.query.services import calls_between, service_statistics, sides_of_calls
from meantime.testing import history_from_picture, history_from_spans
from meantime.view_functions.joining import host_names, join, write_join

if TYPE_CHECKING:
    from meantime.history.history import History

SAMPLES = Path(__file__).parents[1] / "samples"
YEAR_NS = 365 * 86400 * 10**9


def stored(path: Path, picture: str, clock: Clock | None = None) -> Path:
    """Build the history of `cpu0` in a directory."""
    builder = HistoryBuilder(path, start_ns=0, clock=clock or Clock("realtime", utc_at_origin_ns=0))
    cpu = builder.quark("cpu0")
    for time_ns, state in enumerate(picture):
        builder.modify(time_ns, cpu, None if state == "." else state)
    builder.close(len(picture))
    return path


def pictures(history: History) -> dict[str, str]:
    """Return the states of each host's `cpu0` as a text."""
    times = range(history.start_ns, history.end_ns)
    found = {}
    for quark in history.quarks("Hosts/*/cpu0").tolist():
        states = history.sample([quark], [*times]).rows()[0]
        found[history.attributes.path(quark)[1]] = "".join(str(state or ".") for state in states)
    return found


def test_hosts_stand_below_their_names_on_one_axis() -> None:
    clocks = [Clock("realtime", utc_at_origin_ns=at) for at in (100, 102)]
    builders = [HistoryBuilder(clock=clock) for clock in clocks]
    for builder, state in zip(builders, "ab", strict=True):
        builder.modify(0, builder.quark("cpu0"), state)

    both = join([builder.close(3) for builder in builders], ["web", "db"])

    assert pictures(both) == {"web": "aaa..", "db": "..bbb"}
    assert both.clock.utc_at_origin_ns == 100
    assert both.facts == {"times of": "web", "aligned by utc": "db (error unknown)"}
    assert not both.anomalies
    assert both.state("Hosts/db/cpu0", 0)[1:4] == (0, 2, None)


def test_what_cannot_be_related_is_said_to_be_not_aligned() -> None:
    builders = [HistoryBuilder() for _ in range(2)]
    for builder, begin_ns in zip(builders, (5, 900), strict=True):
        builder.lanes("*", label="CPUs")
        builder.modify(begin_ns, builder.quark("cpu0"), "a")

    both = join([builder.close() for builder in builders], ["web", "db"])

    assert both.facts["not aligned"] == "db"
    assert both.anomalies["host_not_aligned"] == 1
    assert both.names == {both.quark("Hosts/db"): "db, not aligned"}
    assert [lane.declaration.label for lane in both.lanes] == [
        "CPUs of web",
        "CPUs of db, not aligned",
    ]


def test_equal_lanes_of_all_hosts_are_one() -> None:
    builders = [HistoryBuilder(clock=Clock(utc_at_origin_ns=0)) for _ in range(3)]
    for builder in builders[:2]:
        builder.lanes("cpu0", label="CPUs")
        builder.modify(0, builder.quark("cpu0"), "a")
    builders[2].modify(0, builders[2].quark("disk"), "a")

    lanes = join([builder.close() for builder in builders], ["a", "b", "c"]).lanes

    assert [lane.declaration.pattern for lane in lanes] == ["Hosts/*/cpu0", ""]


def test_a_growing_part_grows_inside_the_whole() -> None:
    done = history_from_picture("cpu0  aa")
    builder = HistoryBuilder()
    builder.modify(0, builder.quark("cpu0"), "b")
    both = join([done, builder.history], ["done", "new"], offsets={1: 0})
    before = both.snapshot()
    quark = both.quark("Hosts/new/cpu0")

    builder.modify(1, builder.quark("cpu0"), "c", builder.tag({"n": 1}))
    builder.modify(3, builder.quark("disk0"), "x")

    assert not both.built
    assert pictures(both) == {"done": "aa..", "new": "bccc"}
    assert both.sample("Hosts/new/disk0", [3]).rows() == [["x"]]
    assert both.quark("Hosts/new/cpu0") == quark
    assert both.state(quark, 2).ongoing
    assert both.tags[both.state(quark, 2).tag or 0] == {"n": 1}
    assert pictures(before) == {"done": "aa", "new": "b."}
    builder.close(5)
    assert both.built
    assert pictures(both) == {"done": "aa...", "new": "bcccc"}


def test_joined_histories_are_joined_again() -> None:
    parts = [history_from_picture(f"cpu0  {states}") for states in ("ab", "ba", "cc")]
    inner = join(parts[:2], ["x", "y"], offsets={1: 1})

    outer = join([parts[2], inner], ["z", "rack"], offsets={1: 2})

    states = outer.sample(["Hosts/rack/Hosts/x/cpu0", "Hosts/rack/Hosts/y/cpu0"], range(5))
    assert states.rows() == [[None, None, "a", "b", None], [None, None, None, "b", "a"]]
    shares = outer.shares("**/cpu0", bins=5)
    x, y, z = (int(outer.quarks(f"**/{name}/cpu0")[0]) for name in "xyz")
    assert [shares.cell(x, at) for at in (2, 3)] == [{"a": 1}, {"b": 1}]
    assert [shares.cell(y, at) for at in (3, 4)] == [{"b": 1}, {"a": 1}]
    assert [shares.cell(z, at) for at in (0, 4)] == [{"c": 1}, {None: 1}]


def test_depths_of_spans_are_those_of_the_parts() -> None:
    parts = [history_from_spans({"main": [("a", 0, 10), ("b", 2, 5)]}) for _ in range(2)]

    both = join(parts, ["x", "y"], offsets={1: 100})

    depths = both.quarks("Hosts/*/**/Stack/1")
    assert both.sample(depths, [3, 103]).rows() == [["b", None], [None, "b"]]
    assert len(both.without_derived().attributes) < len(both.attributes)
    assert both.spans("**").rows.tolist() == [0, 1, 2, 3]
    assert meantime.stats(both, "name").count.tolist() == [2, 2]


def test_an_empty_host_and_one_of_another_year_are_joined(tmp_path: Path) -> None:
    empty = HistoryBuilder(clock=Clock(utc_at_origin_ns=-(10**18))).close()
    old = stored(tmp_path / "old.mth", "ab")
    new = stored(tmp_path / "new.mth", "ba", Clock("realtime", utc_at_origin_ns=30 * YEAR_NS))

    whole = join([meantime.open(old), empty, meantime.open(new)], ["old", "empty", "new"])

    assert (whole.start_ns, whole.end_ns) == (0, 30 * YEAR_NS + 2)
    times = [0, 1, 2, 30 * YEAR_NS, 30 * YEAR_NS + 1]
    assert whole.sample("Hosts/*/cpu0", times).rows() == [
        ["a", "b", None, None, None],
        [None, None, None, "b", "a"],
    ]
    for offset_ns, reason in ((2**63 - 2, "do not fit into 64 bits"), (2 - 2**63, "too far from")):
        with pytest.raises(TimeRangeError, match=reason):
            join([meantime.open(old), meantime.open(new)], offsets={1: offset_ns})


def test_a_value_that_is_text_here_and_a_number_there() -> None:
    text, number = HistoryBuilder(), HistoryBuilder()
    text.modify(0, text.quark("state"), "on")
    number.modify(0, number.quark("state"), 7)

    both = join([text.close(2), number.close(2)], ["a", "b"], offsets={1: 0})

    quarks = both.quarks("Hosts/*/state")
    assert both.intervals(quarks).value.to_list() == ["on", 7]
    assert both.shares(quarks).value.to_list() == ["on", 7]
    assert both.state_tile(quarks, 0, 2, 1).states.to_list() == ["on", 7]
    assert {row.key: row.total_ns for row in meantime.stats(both).rows} == {"on": 2, "7": 2}


def test_a_file_joins_histories_and_reports_those_that_are_gone(tmp_path: Path) -> None:
    names = ["a", "b", "c", "d"]
    paths = [stored(tmp_path / f"{name}.mth", name * 3) for name in names]
    file = tmp_path / "all.mtj"

    hosts, anomalies = write_join(file, paths, offsets={1: 2})

    assert not anomalies
    assert [(host.name, host.offset_ns, host.how) for host in hosts] == [
        ("a", 0, "first"),
        ("b", 2, "given"),
        ("c", 0, "utc"),
        ("d", 0, "utc"),
    ]
    assert pictures(meantime.open(file)) == {
        "a": "aaa..",
        "b": "..bbb",
        "c": "ccc..",
        "d": "ddd..",
    }
    # the folder moves with what is in it
    moved = tmp_path.parent / f"{tmp_path.name}-moved"
    tmp_path.rename(moved)
    assert len(pictures(meantime.open(moved / "all.mtj"))) == 4
    moved.rename(tmp_path)

    paths[0].rename(tmp_path / "elsewhere.mth")
    stored(tmp_path / "new.mth", "xx").joinpath("manifest").replace(paths[2] / "manifest")
    rest = meantime.open(file)

    assert pictures(rest) == {"b": "..bbb", "d": "ddd.."}
    assert dict(rest.anomalies) == {"host_changed": 1, "host_missing": 1}
    assert "a.mth" in rest.facts["hosts left out"]
    assert "c.mth has changed" in rest.facts["hosts left out"]
    with pytest.raises(InputError, match="host_missing"):
        meantime.open(file, strict=True)


def joined_file(path: Path, parts: dict[str, str]) -> Path:
    """Write a file as someone else might: of parts by name, without checksums."""
    hosts = [
        {"name": name, "path": part, "offset_ns": 0, "how": "start", "error_ns": None}
        | {"checksum": None}
        for name, part in parts.items()
    ]
    clock = {"kind": "unknown", "host": None, "boot_id": None, "utc_at_origin_ns": None}
    content = {"format": "meantime join", "version": 1, "clock": clock, "anomalies": {}}
    path.write_text(json.dumps(content | {"hosts": hosts}))
    return path


def test_a_file_refers_to_places_outside_of_its_folder_only_if_allowed(tmp_path: Path) -> None:
    inner = tmp_path / "sent"
    inner.mkdir()
    outside = stored(tmp_path / "a.mth", "ab")
    (inner / "link.mth").symlink_to(outside)
    file = inner / "all.mtj"

    for part in ("../a.mth", str(outside), "link.mth", "x/../../a.mth"):
        joined_file(file, {"a": part})
        with pytest.raises(InputError, match=r"outside of its folder: .*\.mth; .* --allow-paths"):
            meantime.open(file)
        with pytest.raises(InputError, match="outside"):
            meantime.open(file, allow="urls")
    joined_file(file, {"a": "../a.mth"})
    assert pictures(meantime.open(file, allow="paths")) == {"a": "ab"}
    # one that is joined by an allowed one is in its own folder
    joined_file(tmp_path / "above.mtj", {"b": "sent/all.mtj"})
    with pytest.raises(InputError, match=r"sent/all\.mtj: .*outside"):
        meantime.open(tmp_path / "above.mtj")
    with pytest.raises(UsageError, match="unknown kind 'all'"):
        meantime.open(file, allow="all")


def test_a_file_refers_to_other_stores_only_if_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def blocks_of(url: str) -> list[bytes]:
        asked.append(url)
        raise InputError(url, "nobody answers")

    monkeypatch.setattr("meantime.opening.joined_file.blocks_of", blocks_of)
    urls = {"a": "https://inner.example:8443/a.mth", "b": "s3://bucket/b.mth"}
    file = joined_file(tmp_path / "all.mtj", urls)

    with pytest.raises(
        InputError, match=r"other stores: https://inner\.example:8443, s3://bucket; .* --allow-urls"
    ):
        meantime.open(file)
    assert not asked
    joined_file(file, {"a": "https://inner.example/a.mtj"})
    with pytest.raises(InputError, match="nobody answers"):
        meantime.open(file, allow=["urls"])
    assert asked == ["https://inner.example/a.mtj"]


def test_files_that_join_each_other_without_end_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    monkeypatch.setattr(
        "meantime.history.directory.open.open_history", lambda path, **_: opened.append(path)
    )
    stored(tmp_path / "a.mth", "ab")
    ten = [f"h{number}" for number in range(10)]
    joined_file(tmp_path / "0.mtj", dict.fromkeys(ten, "a.mth"))
    for depth in range(1, 8):
        joined_file(tmp_path / f"{depth}.mtj", dict.fromkeys(ten, f"{depth - 1}.mtj"))

    with pytest.raises(InputError, match="joins more than 100,000 histories"):
        meantime.open(tmp_path / "7.mtj")

    joined_file(tmp_path / "deep.mtj", {"a": "a.mth"})
    for depth in range(8):
        (tmp_path / "deep.mtj").rename(tmp_path / f"below{depth}.mtj")
        joined_file(tmp_path / "deep.mtj", {"a": f"below{depth}.mtj"})
    with pytest.raises(InputError, match="more than 8 deep"):
        meantime.open(tmp_path / "deep.mtj")

    joined_file(tmp_path / "x.mtj", {"y": "y.mtj"})
    joined_file(tmp_path / "y.mtj", {"x": "x.mtj"})
    with pytest.raises(InputError, match="joins itself"):
        meantime.open(tmp_path / "y.mtj")
    assert not opened


def test_a_path_that_is_joined_often_is_opened_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[object] = []

    def counted(path: Path, **options: Any) -> History:
        reads.append(path)
        return open_directory(path, **options)

    monkeypatch.setattr("meantime.history.directory.open.open_history", counted)
    stored(tmp_path / "a.mth", "ab")
    joined_file(tmp_path / "some.mtj", {"x": "a.mth", "y": "./a.mth"})
    joined_file(tmp_path / "all.mtj", {"s": "some.mtj", "t": "some.mtj", "a": "a.mth"})

    history = meantime.open(tmp_path / "all.mtj")

    assert len(reads) == 1
    assert len(history.quarks("**/cpu0")) == 5


def test_a_part_that_is_a_pipe_is_left_out_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    os.mkfifo(tmp_path / "pipe.mtj")
    stored(tmp_path / "a.mth", "ab")
    joined_file(tmp_path / "all.mtj", {"a": "a.mth", "p": "pipe.json", "q": "pipe.mtj"})

    history = meantime.open(tmp_path / "all.mtj")

    assert pictures(history) == {"a": "ab"}
    assert dict(history.anomalies) == {"host_missing": 2}
    assert "pipe.json is neither a file nor a directory" in history.facts["hosts left out"]


@pytest.mark.parametrize("place", ["segments/000000.seg", "tables", "pyramid/000000.pyr"])
def test_a_pipe_inside_of_a_history_is_not_waited_for(tmp_path: Path, place: str) -> None:
    path = stored(tmp_path / "a.mth", "ab" * 3000)
    (path / place).parent.mkdir(exist_ok=True)
    (path / place).unlink(missing_ok=True)
    os.mkfifo(path / place)

    with (
        nullcontext()
        if not place.startswith("segments")  # they are not needed for this answer
        else pytest.raises(InputError, match="not a regular file")
    ):
        history = meantime.open(path)
        history.shares(history.quarks("*"), bins=2)


def test_a_path_that_is_not_utf_8_is_joined(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"bad\xff")
    folder.mkdir()
    stored(folder / os.fsdecode(b"a\xfe.mth"), "ab")
    stored(tmp_path / "b.mth", "ba")

    write_join(tmp_path / "all.mtj", [folder / os.fsdecode(b"a\xfe.mth"), tmp_path / "b.mth"])

    assert sorted(pictures(meantime.open(tmp_path / "all.mtj")).values()) == ["ab", "ba"]


def test_a_file_that_is_damaged_or_of_a_later_version_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "all.mtj"
    write_join(file, [stored(tmp_path / "a.mth", "ab")])
    content = json.loads(file.read_text())

    for wrong, reason in (
        (content | {"version": 3}, "is of version 3"),
        (content | {"format": "x"}, "is damaged"),
        (content | {"hosts": []}, "is damaged"),
        (content | {"hosts": content["hosts"] * 2}, "two have one name"),
        (content | {"hosts": [content["hosts"][0] | {"offset_ns": 2**70}]}, "is damaged"),
        (content | {"anomalies": {"no such": 1}}, "is damaged"),
        (content | {"hosts": [content["hosts"][0] | {"path": file.name}]}, "joins itself"),
        (
            content | {"hosts": [content["hosts"][0] | {"path": file.name, "checksum": None}]},
            "joins itself",
        ),
    ):
        file.write_text(json.dumps(wrong))
        with pytest.raises(InputError, match=reason):
            meantime.open(file)
    file.write_bytes(b"\xff{")
    with pytest.raises(InputError, match="is damaged"):
        meantime.open(file)
    with pytest.raises(InputError, match="cannot be read"):
        meantime.open(tmp_path / "none.mtj")
    manifest = tmp_path / "a.mth" / "manifest"
    lines = manifest.read_bytes()
    file.write_text(json.dumps(content | {"hosts": [content["hosts"][0] | {"checksum": None}]}))
    manifest.write_bytes(b"{" + lines)
    with pytest.raises(InputError, match="none of its histories can be opened: a: "):
        meantime.open(file)
    with pytest.raises(OutputError):
        write_join(tmp_path / "no" / "all.mtj", [stored(tmp_path / "b.mth", "ab")])


def test_names_are_those_of_machines_or_files_and_differ() -> None:
    machines = [Clock(host="web"), Clock(host="db")]

    assert host_names(machines, ["1.mth", "2.mth"]) == (["web", "db"], [])
    assert host_names(machines, ["1.mth", "2.mth"], [None, "x"]) == (["web", "x"], [])
    same = [Clock(host="web")] * 3
    assert host_names(same, ["", "", ""]) == (["web", "web-2", "web-3"], ["web-2", "web-3"])
    assert host_names(same, ["", "", ""], ["a", "a", "a-2"]) == (["a", "a-3", "a-2"], ["a-3"])
    with pytest.raises(UsageError, match="3 histories and 1 names"):
        host_names(same, ["", "", ""], ["a"])
    with pytest.raises(UsageError, match="is not the name of a host"):
        host_names(same, ["", "", ""], ["a", "..", "b"])
    with pytest.raises(UsageError, match="no histories"):
        join([])
    twice = join([history_from_picture("cpu0  a")] * 2, ["a", "a"])
    assert twice.anomalies["host_name_twice"] == 1


def test_offsets_that_were_put_in_are_found_by_messages() -> None:
    random = np.random.default_rng(5)
    true_ns = [0, 5_000, -70_000, 1_234_567]
    inputs = [Clocked(Clock(), 0)] * 4
    messages = []
    for _ in range(200):
        sender, receiver = random.choice(4, 2, replace=False).tolist()
        if {sender, receiver} == {0, 3}:
            continue  # only over others
        sent_ns = int(random.integers(0, 10**9))
        took_ns = int(random.integers(100, 900))
        messages.append(
            Message(
                sender,
                sent_ns - true_ns[sender],
                receiver,
                sent_ns + took_ns - true_ns[receiver],
            )
        )

    found = align_all(inputs, messages=messages)

    for each, offset_ns in zip(found[1:], true_ns[1:], strict=True):
        assert each.how == "messages"
        assert each.error_ns is not None
        assert abs(each.offset_ns - offset_ns) <= each.error_ns < 1_000
    # one direction gives one bound only, and what contradicts itself gives none
    assert align_all(inputs[:2], messages=[Message(0, 5, 1, 9)])[1].how == "start"
    wrong = [Message(0, 5, 1, 4), Message(1, 5, 0, 4)]
    assert align_all(inputs[:2], messages=wrong)[1].how == "start"
    both = join(
        [history_from_picture("cpu0  ab")] * 2,
        ["x", "y"],
        messages=[Message(0, 0, 1, 1), Message(1, 1, 0, 0)],
    )
    assert both.facts == {"times of": "x", "aligned by messages": "y"}
    assert pictures(both) == {"x": ".ab", "y": "ab."}


def host_in_utc(*, utc_ns: int = 0) -> History:
    builder = HistoryBuilder(clock=Clock("realtime", utc_at_origin_ns=utc_ns))
    builder.modify(0, builder.quark("t"), "a")
    return builder.close(10**9)


def test_messages_decide_where_they_contradict_utc() -> None:
    ms = 10**6
    sent = range(100 * ms, 900 * ms, 50 * ms)
    there = [Message(0, at, 1, at - 80 * ms) for at in sent]
    back = [Message(1, at, 0, at + 81 * ms) for at in sent]

    both = join([host_in_utc(), host_in_utc()], ["a", "b"], messages=[*there, *back])

    assert both.anomalies["clock_contradicted"] == 1
    assert both.facts["aligned by messages"] == (
        "b (within 500us, messages contradict its clock by 80ms)"
    )
    (_, found) = align_all([Clocked(Clock(utc_at_origin_ns=0), 0)] * 2, messages=[*there, *back])
    assert found.offset_ns == 80_500_000
    # with one direction only, the least that makes sense of the messages
    (_, found) = align_all([Clocked(Clock(utc_at_origin_ns=0), 0)] * 2, messages=there)
    assert (found.offset_ns, found.error_ns, found.contradicted_ns) == (80 * ms, None, 80 * ms)
    # an offset that was given stays
    given = join(
        [host_in_utc(), host_in_utc()], ["a", "b"], offsets={1: 0}, messages=[*there, *back]
    )
    assert given.anomalies["clock_contradicted"] == 1
    assert given.facts["aligned by given"] == "b (messages contradict its clock by 80ms)"


def test_messages_that_agree_with_utc_change_nothing() -> None:
    both = join([host_in_utc(), host_in_utc()], ["a", "b"], messages=[Message(0, 100, 1, 120)])

    assert both.facts["aligned by utc"] == "b (error unknown)"
    assert not both.anomalies


def test_a_contradiction_within_the_error_of_a_clock_is_none() -> None:
    anchors = ((0, 0), (50, 55))
    clocks = [Clocked(Clock("realtime", utc_at_origin_ns=0, anchors=anchors), 0)] * 2

    assert align_all(clocks, messages=[Message(0, 100, 1, 91)])[1].how == "utc"
    assert align_all(clocks, messages=[Message(0, 100, 1, 89)])[1].contradicted_ns == 11


def test_of_three_hosts_the_one_that_messages_contradict_most_moves() -> None:
    clocks = [Clocked(Clock(utc_at_origin_ns=0), 0)] * 3
    messages = [
        *(Message(0, 100, 1, 110), Message(1, 120, 0, 130)),
        *(Message(0, 100, 2, 20), Message(2, 30, 0, 120)),
        *(Message(1, 100, 2, 20), Message(2, 30, 1, 120)),
    ]
    found = align_all(clocks, messages=messages)

    assert [each.how for each in found] == ["first", "utc", "messages"]
    assert 80 <= found[2].offset_ns <= 90


def test_a_clock_that_was_set_while_recording_is_reported() -> None:
    stepped = Clock("realtime", utc_at_origin_ns=0, anchors=((0, 0), (50, 50 + 2_000_000)))
    builder = HistoryBuilder(clock=stepped)
    builder.modify(0, builder.quark("cpu0"), "a")
    steady = HistoryBuilder(clock=Clock("realtime", utc_at_origin_ns=0, anchors=((0, 3),)))
    steady.modify(0, steady.quark("cpu0"), "a")

    histories = [builder.close(), steady.close()]
    both = join(histories, ["a", "b"])

    assert both.anomalies["clock_moved"] == 1
    assert both.facts["aligned by utc"] == "b (within 2ms)"


def test_why_and_scheduling_of_a_thread_are_those_of_its_host() -> None:
    kernel, command = (meantime.open(SAMPLES / "ftrace" / f"{name}.txt") for name in (
        "kernel", "trace-cmd"
    ))  # fmt: skip
    joined = meantime.join([kernel, command], ["a", "b"], offsets={1: 700})

    for host, history, offset_ns in (("a", kernel, 0), ("b", command, 700)):
        title = next(iter(scheduled_threads(history).values()))
        own, whole = critical_path(history, title), critical_path(joined, f"{host} {title}")
        assert (whole.start_ns - offset_ns).tolist() == own.start_ns.tolist()
        assert whole.range_ns == tuple(time_ns + offset_ns for time_ns in own.range_ns)
        assert whole.state.to_list() == own.state.to_list()
        assert whole.because.to_list() == own.because.to_list()
        assert {joined.attributes.path(q)[1] for q in whole.titles} == {host}
    rows = thread_scheduling(joined).rows
    apart = [thread_scheduling(history).rows for history in (kernel, command)]
    assert len(rows) == sum(map(len, apart))
    assert sum(row.run_ns for row in rows) == sum(row.run_ns for own in apart for row in own)


def test_findings_are_of_their_host_in_the_times_of_the_whole() -> None:
    calls = [("query", 100 * i, 100 * i + 9 + i % 3) for i in range(99)]
    steady = history_from_spans({"main": calls})
    slow = history_from_spans({"main": [*calls, ("query", 9900, 10_900)]})
    joined = meantime.join([steady, meantime.join([slow], ["in"])], ["x", "y"], offsets={1: 7})

    (found,) = findings(joined)

    (own,) = findings(slow)
    assert found.sentence == f"y/in: {own.sentence}"
    assert found.ranges == tuple((start + 7, end + 7) for start, end in own.ranges)
    assert found.rows == ("Hosts/y/Hosts/in/Processes/1/Threads/main",)
    spans = joined.spans()
    (row,) = np.flatnonzero(np.asarray(spans.rows) == found.spans[0])
    assert int(spans.end_ns[row] - spans.start_ns[row]) == 1000
    assert found.arguments[-1] == "10.907us"


def test_groups_of_requests_are_those_of_all_hosts_together() -> None:
    def requests(*ends: int) -> History:
        builder = HistoryBuilder()
        for number, end in enumerate(ends):
            request = builder.quark("Requests", "GET /a", str(number))
            builder.modify(20 * number, request, "running")
            builder.modify(20 * number + end, request, None)
        return builder.close(100)

    def rows(history: History) -> list[tuple[object, ...]]:
        found = group_statistics(history, by="route").rows
        return [(row.key, row.count, row.median_ns, row.max_ns, row.total_ns) for row in found]

    parts = [requests(2, 9), requests(4), requests()]
    joined = meantime.join(parts, list("xyz"), offsets={1: 0, 2: 0})

    assert rows(requests()) == []
    assert rows(requests(2, 9)) == [("/a", 2, 2, 9, 11)]
    assert rows(joined) == [("/a", 3, 4, 9, 15)]


def test_calls_between_services_bound_the_offset_of_unknown_clocks(tmp_path: Path) -> None:
    def trace(name: str, spans: list[tuple[str, str, int, int, int]]) -> History:
        listed = [
            {
                "traceId": f"{call:032x}", "spanId": f"{call:015x}{id_}", "parentSpanId": above and
                f"{call:015x}{above}", "name": name, "kind": 3 if id_ == "1" else 2,
                "startTimeUnixNano": str(start), "endTimeUnixNano": str(end),
            }
            for id_, above, call, start, end in spans
        ]  # fmt: skip
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": name}}]}
        document = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": listed}]}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
        return meantime.open(tmp_path / f"{name}.json")

    base, skew = 10**18, 5_000_000
    calls = [(call, base + call * 1000) for call in range(1, 30)]
    web = trace("web", [("1", "", call, at, at + 300) for call, at in calls])
    db = trace(
        "db",
        [("2", "1", call, at + 20 + call + skew, at + 260 + call + skew) for call, at in calls],
    )

    messages = calls_between([sides_of_calls(web), sides_of_calls(db)])

    assert len(messages) == 2 * len(calls)
    clocks = [Clocked(Clock(), 0), Clocked(Clock(), 0)]
    _, found = align_all(clocks, messages=messages)
    origins = [history.clock.utc_at_origin_ns or 0 for history in (web, db)]
    assert found.how == "messages"
    assert abs(found.offset_ns - (origins[1] - origins[0] - skew)) <= (found.error_ns or 0) <= 21
    both = service_statistics(meantime.join([web, db], ["w", "d"]), by="service")
    assert {(row.service, row.count) for row in both.rows} == {("web", 29), ("db", 29)}


def test_a_joined_history_is_pickled_as_its_parts(tmp_path: Path) -> None:
    paths = [stored(tmp_path / f"{name}.mth", "aab.") for name in ("x", "y")]
    joined = meantime.join(paths, offsets={1: 3})

    again = pickle.loads(pickle.dumps(joined))  # noqa: S301 - our own bytes

    assert pictures(again) == pictures(joined)
    assert again.bounds == joined.bounds
    with pytest.raises(HistoryError, match="in memory cannot be pickled"):
        pickle.dumps(meantime.join([history_from_picture("cpu0  a")]))


def test_spans_by_host_are_those_of_each_host() -> None:
    parts = [
        history_from_spans({"main": [("a", 0, 10), ("b", 2, 5)]}),
        history_from_spans({"main": [("a", 0, 3)], "other": [("c", 1, 2)]}),
    ]
    joined = meantime.join(parts, ["web", "db"], offsets={1: 0})

    found = span_statistics(joined, "host")

    assert found.keys == ["web", "db"]
    assert found.count.tolist() == [2, 2]
    assert found.self_ns.tolist() == [10, 4]
    assert span_statistics(parts[0], "host").count.tolist() == [2]
