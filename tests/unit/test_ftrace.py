"""Reading ftrace text: every form of its lines, what follows from the events, and bad input."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.errors import InputError, UsageError
from meantime.model.events import Events
from meantime.readers import open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History

PAGE = (
    '<!DOCTYPE html>\n<title>Android System Trace</title>\n<script>\n  var linuxPerfData = "\\\n'
    '# tracer: nop\\n\\\n{text}         \\n";\n</script>\n</html>\n'
)


def read(tmp_path: Path, text: str | bytes, name: str = "trace.txt") -> History:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return meantime.open(path)


def switch(line: str, leaving: int, letter: str, coming: int, name: str = "b") -> str:
    return (
        f"{line}: sched_switch: prev_comm=a prev_pid={leaving} prev_prio=120 prev_state={letter}"
        f" ==> next_comm={name} next_pid={coming} next_prio=110\n"
    )


def states(history: History, *path: str) -> list[tuple[int, int, object]]:
    found = history.intervals([history.quark(*path, "Status")], *history.bounds)
    base = 1_000_000_000
    return [
        ((each.start_ns - base) // 1000, (each.end_ns - base) // 1000, each.value)
        for each in found
        if each.value is not None
    ]


@pytest.mark.parametrize(
    ("begin", "head"),
    [
        ("     sh-7 [000] {}", ""),
        ("     sh-7     [000] d..2.  {}", "# tracer: nop\n#\n"),
        ("     sh-7     (  7) [000] d.h2 {}", "# tracer: nop\n"),
        ("     sh-7     (-----) [000] ...1  {}", "# tracer: nop\n"),
        ("     sh-7 [000] {}", "cpus=2\n"),
        ("  my sh] [1-7 [000] {}", ""),
        ("  a: b ==> c-7 [000] {}", ""),
        ("  x\ty-7 [000] {}", ""),
        ("  dead-beef-7 [000] {}", "cpus=1\n"),
        ("  \u00fc-7 [000] {}", ""),
        ("  my sh-7       0d..2. {}", ""),
        ("     sh-7       0d.h211 {}", "cpus=1\n"),
        ("   a 0-b-7      0-0x34 {}", "cpus=1\n"),
    ],
)
@pytest.mark.parametrize("nanos", ["", "000"])
def test_every_form_of_a_line_is_read(tmp_path: Path, begin: str, head: str, nanos: str) -> None:
    times = [f"1.000{each}{nanos}" for each in (100, 200, 300)]
    lines = [begin.format(time) for time in times]
    text = (
        head + switch(lines[0], 3, "S", 7) + switch(lines[1], 7, "D", 3) + f"{lines[2]}: x: y=1\n"
    )

    history = read(tmp_path, text)

    assert history.metadata.format == "ftrace"
    assert len(history.samples()) == 3
    assert states(history, "Threads", "7") == [(100, 200, "running"), (200, 300, "blocked")]
    # who runs after the last switch is known if the text is all that its CPU did
    whole = head.startswith("cpus")
    assert dict(history.anomalies) == ({} if whole else {"unknown_time": 1})


LETTERS = ("R", "S", "D", "T", "P", "I", "R+")
BITS = ("0", "1", "2", "4", "64", "128", "256")
PRINTED_BY_TRACE_CMD = ("R", "S", "D", "T", "P", "W", "R+")


@pytest.mark.parametrize("begin", ["[000] ", "0d..2. "])
@pytest.mark.parametrize("difference", ["", "(+18703) "])
@pytest.mark.parametrize(
    ("form", "spelled"),
    [
        ("prev_comm=a prev_pid={} prev_prio=9 prev_state={} ==> next_comm={}9", LETTERS),
        ("prev_comm=a prev_pid={} prev_prio=9 prev_state={} next_comm={}9", BITS),
        ("a:{} [9] {} ==> {}", PRINTED_BY_TRACE_CMD),
        ("a:{} [9] {} ==> {} Latency: 12.719 usecs", PRINTED_BY_TRACE_CMD),
    ],
)
def test_every_spelling_of_a_switch_by_trace_cmd_is_read(
    tmp_path: Path, form: str, spelled: tuple[str, ...], difference: str, begin: str
) -> None:
    coming = " next_comm=d ==> c:{} [9]" if form.startswith("a:") else " x next_pid={} next_prio="
    text = "cpus=1\n"
    for step, state in enumerate(spelled):
        for here, fields in enumerate(
            (form.format(7, state, coming.format(8)), form.format(8, state, coming.format(7)))
        ):
            time = f"1.000{100 + 2 * step + here}"
            text += f"  a-{7 + here}  {begin}{time}: {difference}sched_switch:   {fields}\n"

    found = states(read(tmp_path, text), "Threads", "7")

    assert [value for _, _, value in found if value != "running"] == [
        *("runnable", "sleeping", "blocked", "stopped", "parked", "idle", "preempted")
    ]


def test_a_name_that_is_not_utf8_is_escaped(tmp_path: Path) -> None:
    history = read(tmp_path, b"  a\xff-7 [000] 1.000010: x: y=1\n")

    assert history.names[history.quark("Threads", "7")] == "a\\xff"


def test_a_woken_thread_is_runnable_and_tagged_with_its_waker(tmp_path: Path) -> None:
    text = (
        switch("  a-3 [000] 1.000100", 3, "S", 8)
        + "  b-8 [000] 1.000150: sched_waking: comm=a pid=3 prio=120 target_cpu=001\n"
        + "  b-8 [000] 1.000160: sched_wakeup: a:3 [120] success=1 CPU:001\n"
        + switch("  b-8 [000] 1.000200", 8, "R+", 3, "a")
        + switch("  a-3 [000] 1.000300", 3, "X", 8)
        + switch("  b-8 [000] 1.000400", 8, "S", 0)
    )
    history = read(tmp_path, text)

    assert states(history, "Threads", "3") == [
        (100, 150, "sleeping"), (150, 200, "runnable"), (200, 300, "running")
    ]  # fmt: skip
    waking = history.state(history.quark("Threads", "3", "Status"), 1_000_150_000)
    assert waking.tag is not None
    assert history.tags[waking.tag] == {"cpu": 1, "priority": 120, "name": "a", "waker": "b (8)"}
    running = history.state(history.quark("Threads", "3", "Status"), 1_000_200_000)
    assert running.tag is not None
    assert history.tags[running.tag] == {"cpu": 0, "priority": 110, "name": "a"}
    flows = history.flows()
    assert (flows.from_ns.tolist(), flows.to_ns.tolist()) == ([1_000_150_000], [1_000_150_000])
    assert states(history, "CPUs", "0") == [(100, 400, "user"), (400, 400, "idle")]


def test_without_a_provider_nothing_follows_from_the_scheduler(
    samples: Path, tmp_path: Path
) -> None:
    path = samples / "ftrace" / "kernel.txt"

    bare = meantime.open(path, provider="none")
    built = meantime.build(path, "none", tmp_path / "bare.mth")

    assert len(meantime.open(path).quarks("CPUs/*/Status"))
    for history in (bare, built):
        assert not len(history.quarks("CPUs/*/Status"))
        assert len(history.samples())
    assert built.provenance["provider"] == "none"
    with pytest.raises(UsageError, match="'none' apply to a file"):
        meantime.build([], "none")
    with pytest.raises(InputError, match="this is a finished history; a provider, or none"):
        meantime.open(tmp_path / "bare.mth", provider="none")


def test_interrupts_are_states_and_spans_of_their_cpu(tmp_path: Path) -> None:
    line = "  a-3 [000] d.h. 1.000{}: "
    text = (
        switch(line.format(100)[:-2], 9, "S", 3, "kworker/0:1")
        + line.format(110) + "softirq_entry: vec=1 [action=TIMER]\n"
        + line.format(120) + "irq_handler_entry: irq=36 name=virtio1\n"
        + line.format(130) + "irq_handler_exit: irq=36 ret=handled\n"
        + line.format(140) + "softirq_exit: vec=1 [action=TIMER]\n"
        + switch(line.format(200)[:-2], 3, "S", 0)
        + switch(line.format(300)[:-2], 0, "R", 3, "kworker/0:1")
    )  # fmt: skip
    history = read(tmp_path, text)

    assert states(history, "CPUs", "0") == [
        (100, 110, "kernel thread"), (110, 120, "softirq"), (120, 130, "irq"),
        (130, 140, "softirq"), (140, 200, "kernel thread"), (200, 300, "idle"),
        (300, 300, "kernel thread"),
    ]  # fmt: skip
    spans = history.spans()
    assert sorted(spans.name.names[code] for code in spans.name.codes.tolist()) == [
        "TIMER", "virtio1",
    ]  # fmt: skip


def test_calls_and_requests_are_lanes(tmp_path: Path) -> None:
    text = (
        "  a-3 [000] 1.000100: sys_enter_read: fd: 0x3\n"
        "  a-3 [000] 1.000110: block_rq_issue: 254,0 RA 4096 () 800 + 8 [a]\n"
        "  a-3 [000] 1.000120: sys_exit_read: 0x0\n"
        "  a-3 [000] 1.000130: sys_write(fd: 1, buf: 7f)\n"
        "  a-3 [000] 1.000150: sys_write -> 0x4\n"
        "  b-4 [001] 1.000160: sys_enter: NR 172 (29, c350)\n"
        "  a-3 [000] 1.000170: block_rq_complete: 254,0 RA () 800 + 8 [0]\n"
    )
    history = read(tmp_path, text)

    spans = history.spans()
    assert [spans.name.names[code] for code in spans.name.codes.tolist()] == [
        "read", "write", "syscall 172",
    ]  # fmt: skip
    assert (spans.end_ns - spans.start_ns).tolist() == [20_000, 20_000, 10_001]
    assert history.anomalies["unfinished_span"] == 1
    disk = history.state(history.quark("Disks", "254,0", "0"), 1_000_120_000)
    assert (disk.value, disk.start_ns, disk.end_ns) == ("read", 1_000_110_000, 1_000_170_000)


def test_a_flush_ends_though_its_end_has_another_sector(tmp_path: Path) -> None:
    text = (
        "  a-3 [000] 1.000110: block_rq_issue: 8,0 FF 0 () 0 + 0 [a]\n"
        "  a-3 [000] 1.000120: block_rq_issue: 8,0 R 4096 () 0 + 8 [a]\n"
        "  a-3 [000] 1.000130: block_rq_complete: 8,0 FF () 18446744073709551615 + 0 [0]\n"
        "  a-3 [000] 1.000170: block_rq_complete: 8,0 R () 0 + 8 [0]\n"
    )
    history = read(tmp_path, text)

    for slot, value, start_ns, end_ns in (("0", "flush", 110, 130), ("1", "read", 120, 170)):
        found = history.state(history.quark("Disks", "8,0", slot), 1_000_125_000)
        assert found.value == value
        assert (found.start_ns, found.end_ns) == (10**9 + start_ns * 1000, 10**9 + end_ns * 1000)
    assert not dict(history.anomalies)


def test_marks_of_atrace_are_spans_counters_and_points(tmp_path: Path) -> None:
    line = "  ui-7 ( 5) [000] ...1 1.0001{}: {}\n"
    marks = [
        "tracing_mark_write: B|5|draw|x", "0: B|5|inner", "print: tracing_mark_write: E",
        "tracing_mark_write: E|5", "tracing_mark_write: S|5|load|9",
        "tracing_mark_write: C|5|heap|12",
        "tracing_mark_write: F|5|load|9", "tracing_mark_write: I|5|now",
        "tracing_mark_write: trace_event_clock_sync: parent_ts=1.000300",
        "tracing_mark_write: trace_event_clock_sync: realtime_ts=1700000000000",
    ]  # fmt: skip
    history = read(tmp_path, "".join(line.format(i + 10, mark) for i, mark in enumerate(marks)))

    spans = history.spans()
    found = {
        spans.name.names[code]: (end_ns - start_ns, depth)
        for code, start_ns, end_ns, depth in zip(
            spans.name.codes.tolist(), spans.start_ns.tolist(), spans.end_ns.tolist(),
            spans.depth.tolist(), strict=True,
        )
    }  # fmt: skip
    assert found == {"draw|x": (3_000, 0), "inner": (1_000, 1), "load": (2_000, 0)}
    heap = history.quark("Processes", "5", "Counters", "heap", "value")
    assert history.state(heap, 1_000_115_000).value == 12
    assert "now" in set(history.points().name.names)
    assert history.clock.kind == "monotonic"
    assert history.clock.utc_at_origin_ns == 1_700_000_000 * 10**9 - 1_000_119_000


def test_functions_are_spans_and_stacks(tmp_path: Path) -> None:
    text = (
        "  a-3 [000] 1.000100: funcgraph_entry:                   |  sys_close() {\n"
        "  a-3 [000] 1.000110: funcgraph_entry:        0.541 us   |    _lock();\n"
        "  a-3 [000] 1.000120: funcgraph_exit:       + 20.1 us    |  }\n"
        "  a-3 [000] 1.000130: function:             unlock <-- release\n"
        "  a-3 [000] 1.000140: lock <-take\n"
    )
    history = read(tmp_path, text)

    spans = history.spans()
    names = [spans.name.names[code] for code in spans.name.codes.tolist()]
    assert list(zip(names, (spans.end_ns - spans.start_ns).tolist(), strict=True)) == [
        ("sys_close", 20_000), ("_lock", 541),
    ]  # fmt: skip
    assert set(history.samples().stacks.frames) == {"unlock", "release", "lock", "take"}


@pytest.mark.parametrize("note", ["CPU:0 [LOST 12 EVENTS]", "CPU:0 [12 EVENTS DROPPED]"])
def test_a_stretch_in_which_events_were_lost_is_unknown(tmp_path: Path, note: str) -> None:
    text = (
        switch("  a-3 [000] 1.000100", 9, "S", 3)
        + switch("  a-4 [001] 1.000100", 9, "S", 4)
        + "  a-3 [000] 1.000150: x: y=1\n"
        + note + "\n"
        + "  a-3 [000] 1.000250: x: y=1\n"
        + switch("  a-3 [000] 1.000300", 3, "S", 9)
        + switch("  a-4 [001] 1.000300", 4, "S", 9)
    )  # fmt: skip
    history = read(tmp_path, text)

    # from the first line after the gap on, it runs until it leaves
    assert states(history, "Threads", "3") == [
        (100, 150, "running"), (150, 250, "unknown"), (250, 300, "running"),
        (300, 300, "sleeping"),
    ]  # fmt: skip
    assert states(history, "CPUs", "0")[:3] == [
        (100, 150, "user"), (150, 250, "unknown"), (250, 300, "user")
    ]  # fmt: skip
    assert states(history, "Threads", "4")[0] == (100, 300, "running")
    assert dict(history.anomalies) == {"lost_events": 12, "unknown_time": 1}
    assert (1_000_150_000, 1_000_250_000) in [tuple(each) for each in history.lost]


def test_what_an_overwritten_buffer_lacks_is_counted_and_hatched(tmp_path: Path) -> None:
    text = (
        "# tracer: nop\n#\n# entries-in-buffer/entries-written: 2/500   #P:2\n#\n"
        "  a-3 [000] 1.000100: x: y=1\n  a-4 [001] 1.000300: x: y=1\n"
    )
    history = read(tmp_path, text)

    assert dict(history.anomalies) == {"overwritten_events": 498}
    assert [tuple(each) for each in history.lost] == [(1_000_100_000, 1_000_300_000)]


def test_a_thread_on_two_cpus_at_once_is_unknown_on_the_first(tmp_path: Path) -> None:
    text = (
        switch("  a-9 [000] 1.000100", 9, "S", 3)
        + switch("  a-8 [001] 1.000200", 8, "S", 3)
        + switch("  a-3 [001] 1.000300", 3, "S", 8)
        + switch("  a-3 [000] 1.000400", 3, "S", 9)
    )
    history = read(tmp_path, text)

    assert states(history, "Threads", "3")[:2] == [(100, 200, "unknown"), (200, 300, "running")]
    assert history.anomalies["lost_switch"] == 1


def test_a_reused_thread_id_runs_again_after_its_exit(tmp_path: Path) -> None:
    text = (
        switch("  a-9 [000] 1.000100", 9, "S", 3)
        + switch("  a-3 [000] 1.000200", 3, "X", 9)
        + "  a-9 [000] 1.000250: sched_waking: comm=a pid=3 prio=120 target_cpu=000\n"
        + "  a-9 [000] 1.000300: sched_wakeup_new: comm=n pid=3 prio=120 target_cpu=000\n"
        + switch("  a-9 [000] 1.000400", 9, "S", 3, "n")
        + switch("  n-3 [000] 1.000500", 3, "S", 9)
    )
    history = read(tmp_path, text)

    assert states(history, "Threads", "3") == [(100, 200, "running")]
    # another thread with its id
    assert states(history, "Threads", "3#2") == [
        (300, 400, "runnable"), (400, 500, "running"), (500, 500, "sleeping"),
    ]  # fmt: skip


def test_times_that_go_back_within_a_cpu_are_counted_and_placed(tmp_path: Path) -> None:
    text = (
        switch("  a-9 [000] 1.000100", 9, "S", 3)
        + switch("  n-4 [000] 1.000300", 4, "S", 9)
        + switch("  a-3 [000] 1.000200", 3, "S", 4)
    )
    history = read(tmp_path, text)

    assert states(history, "Threads", "4")[0] == (200, 300, "running")
    assert dict(history.anomalies) == {"cpu_time_went_back": 1}


def test_a_line_that_is_cut_off_is_counted(tmp_path: Path) -> None:
    history = read(tmp_path, "  a-9 [000] 1.000100: x: y=1\n  a-9 [000] 1.0001")

    assert dict(history.anomalies) == {"unknown_line": 1, "truncated": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# tracer: hwlat\n#\n  <...>-7 [000] d... 1.000100: #1 inner/outer(us): 12/13\n", "hwlat"),
        ("# tracer: osnoise\n#\n", "tracer osnoise is not read"),
        ("# tracer: function_graph\n#\n# FUNCTION CALLS\n 0)  0.6 us |  }\n", "trace-cmd"),
        ("# tracer: nop\n#\n  a-7 [000] ..... 123456789: x: y=1\n", "not seconds"),
        ("# tracer: nop\n#\n", "no events"),
    ],
)  # fmt: skip
def test_text_that_cannot_be_read_is_refused_with_the_reason(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        read(tmp_path, text)


def test_pages_and_compressed_text_are_read(tmp_path: Path) -> None:
    lines = "".join(f"  a-7 [000] 1.00010{i}: 0: C|5|heap|{i}" + "\\n\\\n" for i in range(3))
    page = read(tmp_path, PAGE.format(text=lines), "page.html")
    plain = lines.replace("\\n\\\n", "\n")
    packed = read(tmp_path, b"TRACE:\n" + zlib.compress(f"# tracer: nop\n{plain}".encode()), "z")

    for history in (page, packed):
        assert len(history.samples()) == 3
        assert dict(history.anomalies) == {}
    with pytest.raises(InputError, match="damaged"):
        read(tmp_path, b"TRACE:\nx\x9c\xff\xff\xff", "broken")


def test_the_clock_beside_a_trace_is_named(tmp_path: Path) -> None:
    (tmp_path / "trace_clock").write_text("local global [mono] boot\n")

    history = read(tmp_path, "# tracer: nop\n#\n  a-7 [000] 1.000100: x: y=1\n", "trace")

    assert history.clock.kind == "monotonic"
    assert history.metadata.facts["trace_clock"] == "mono"


def test_events_have_typed_fields(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_text(switch("  a-3 ( 2) [001] 1.000100", 3, "S", 8))

    (found,) = open_trace(path, events=True).batches

    assert isinstance(found, Events)
    (event,) = found
    assert (event.name, event.cpu, event.tid) == ("sched_switch", 1, 3)
    assert event["next_pid"] == 8
    assert event["prev_state"] == "S"


def test_a_line_as_long_as_its_file_is_searched_once(tmp_path: Path) -> None:
    # with repetitions without a limit this takes hours
    with pytest.raises(InputError):
        read(tmp_path, b"# tracer: nop\n" + b"x-1 [000] " * 50_000)
