from __future__ import annotations

import gzip
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

import meantime
from meantime.errors import InputError
from meantime.history.ingest import build
from meantime.kernels import perf
from meantime.model.events import Event, Events
from meantime.readers import open_trace
from meantime.views import statemap

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history.history import History

STACK = (
    "\tffffffff8158e3e1 next_page+0xc1 ([kernel.kallsyms])\n\t  7f41 main+0x2 (/usr/bin/prog)\n\n"
)


def read(tmp_path: Path, text: str | bytes) -> History:
    path = tmp_path / "perf.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return build(open_trace(path))


def rows(history: History) -> list[tuple[int, str | None, str | None, int]]:
    samples = history.samples()
    return [
        (int(samples.time_ns[row]), samples.name[row], samples.event[row], int(samples.weight[row]))
        for row in range(len(samples))
    ]


def threads(history: History) -> list[tuple[str, ...]]:
    return [history.attributes.path(int(quark)) for quark in history.samples().thread]


HEADERS = {
    "java  1234 [002] 12.345678:   10101010 cpu-clock:ppp: ": ("java", "1234", 2),
    "        java  1234 [002]    12.345678:   10101010 cpu-clock:ppp:  7f41 main (/usr/bin/x)": (
        "java",
        "1234",
        2,
    ),
    "java 99/1234 12.345678: 10101010 cpu-clock:ppp: ": ("java", "99/1234", -1),
    "java 12.345678: 10101010 cpu-clock:ppp: ": ("java", None, -1),
    "825432/825432 12.345678000:       10101010 cpu-clock:ppp: ": ("", "825432/825432", -1),
    "C2 CompilerThre 7 [000] 12.345678000: 10101010 cpu-clock:ppp: ": ("C2 CompilerThre", "7", 0),
    "(paren) [x] 7 [000] 12.345678: 10101010 cpu-clock:ppp: ": ("(paren) [x]", "7", 0),
    "io 12 [000] 7 [001] 12.345678: 10101010 cpu-clock:ppp: ": ("io 12 [000]", "7", 1),
    "99 1.5: a: 7 [001] 12.345678: 10101010 cpu-clock:ppp: ": ("99 1.5: a:", "7", 1),
    "tab\there 7 [001] 12.345678: 10101010 cpu-clock:ppp: ": ("tab\there", "7", 1),
    "[x] 7 [001] 12.345678: 10101010 cpu-clock:ppp: ": ("[x]", "7", 1),
    "<...> 7 [001] 12.345678: 10101010 cpu-clock:ppp: ": ("<...>", "7", 1),
    "metronome:0 7 [001] 12.345678: 10101010 cpu-clock:ppp: ": ("metronome:0", "7", 1),
    ":20557 20557 [001] 12.345678: 10101010 cpu-clock:ppp: ": (":20557", "20557", 1),
    "swapper -1 [001] 12.345678: 10101010 cpu-clock:ppp: ": ("swapper", "-1", 1),
    "Gecko\t25122 [007] 12.345678:\t\t10101010 cpu-clock:ppp:": ("Gecko", "25122", 7),
    "java 7 [000] KUH 12.345678: 10101010 cpu-clock:ppp: ": ("java", "7", 0),
    "java 7 [000] 2026-11-21 08:15:44.978001072 12.345678: 10101010 cpu-clock:ppp: ": (
        "java",
        "7",
        0,
    ),
}


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("after", ["\n" + STACK, "\n", "", "\r\n"])
def test_each_layout_is_read(tmp_path: Path, header: str, after: str) -> None:
    comm, ids, cpu = HEADERS[header]

    history = read(tmp_path, header + after)

    assert rows(history) == [(12_345_678_000, comm, "cpu-clock:ppp", 10_101_010)]
    assert history.samples().cpu.tolist() == [cpu]
    pid, _, tid = (ids or "").rpartition("/")
    path = ("Processes", pid, "Threads", tid) if pid else ("Threads", tid or comm)
    assert threads(history) == [path]


@pytest.mark.parametrize(
    ("rest", "event", "weight"),
    [
        (" cpu-clock: ", "cpu-clock", 1),
        (" 250 cycles:u: ", "cycles:u", 250),
        ("  sched:sched_switch: prev_comm=a prev_pid=1 ==> next_comm=b: 2.000000: x", None, 1),
        (" 1 probe_workload:mid_spin: (558d39d64293)", "probe_workload:mid_spin", 1),
        (" 1 my-event: ", "my-event", 1),
        (" cpu/event=0x3c,umask=0/: ", "cpu/event=0x3c,umask=0/", 1),
        (" 7 r1a8: ", "r1a8", 7),
        ("", "sample", 1),
        (" 558d39 main (/usr/bin/x)", "sample", 1),
    ],
)
def test_each_event_is_read(tmp_path: Path, rest: str, event: str | None, weight: int) -> None:
    history = read(tmp_path, f"java 7 [000] 12.345678:{rest}\n")

    assert rows(history) == [(12_345_678_000, "java", event or "sched:sched_switch", weight)]


def test_the_time_nearest_to_the_others_is_the_time(tmp_path: Path) -> None:
    text = "java 7 5.000001: 1 x: \n\na 1 1.000000: 8 5.000002: 1 x: \n\n"

    assert [row[:2] for row in rows(read(tmp_path, text))] == [
        (5_000_001_000, "java"),
        (5_000_002_000, "a 1 1.000000:"),
    ]


@pytest.mark.parametrize(
    ("others", "hostile", "time_ns"),
    [
        ("java 7 1.000000000: 1 x: ", "a 1 1.000001: 8 1.000002000: 1 x: ", 1_000_002_000),
        ("java 7 1.000000: 1 x: ", "1 1.000000001: 8 1.000002: 1 x: ", 1_000_002_000),
        (
            "java 7 2026-11-21 08:15:44.978 1.000000: 1 x: ",
            "a 1 1.000001: 8 2026-11-21 08:15:44.978 1.000002: 1 x: ",
            1_000_002_000,
        ),
        ("java 7 1.000005: 1 x: ", "a 1 1.000003: 8 1.000009: 1 x: ", 1_000_009_000),
    ],
)
def test_a_comm_that_looks_like_a_header_is_recognised_by_the_other_lines(
    tmp_path: Path, others: str, hostile: str, time_ns: int
) -> None:
    found = rows(read(tmp_path, f"{others}\n\n{hostile}\n\n"))

    assert found[1][0] == time_ns
    assert found[1][1] == hostile.split(": ", maxsplit=1)[0] + ":"


def test_bytes_that_are_not_utf8_are_escaped(tmp_path: Path) -> None:
    assert rows(read(tmp_path, b"\xff\xfe bad 7 [000] 1.000000: x: \n"))[0][1] == r"\xff\xfe bad"


def test_one_thread_may_have_several_names(tmp_path: Path) -> None:
    history = read(tmp_path, "fork 7 1.000000: x: \n\nexec 7 2.000000: x: \n\n")

    assert [row[1] for row in rows(history)] == ["fork", "exec"]
    assert threads(history) == [("Threads", "7")] * 2


FRAMES = {
    "ffffffff81 read+0x2f ([kernel.kallsyms])": "read",
    "ffffffff81 read+0x2f (inlined)": "read",
    "7f41 [unknown] (/usr/lib/libc.so.6)": "[libc.so.6]",
    "7f41 [unknown] ([unknown])": "[unknown]",
    "7f41 [unknown] (/memfd:x (deleted))": "[memfd:x (deleted)]",
    "7f41 [unknown] (//anon)": "[anon]",
    "7f41 [unknown] ([vdso])": "[vdso]",
    "7f41 [unknown] (a[1])": "[a[1]]",
    "7f41 <a::B as c::D<E>>::f (/x)": "<a::B as c::D<E>>::f",
    "7f41 ns::f(int, char const*)+0x1 (/x)": "ns::f(int, char const*)",
    "7f41 operator()": "operator()",
    "7f41 Lcom/x;::a->b+0x10 (/tmp/perf-1.map)": "Lcom/x;::a->b",
    "7f41": "7f41",
}


@pytest.mark.parametrize("frame", FRAMES)
def test_each_frame_is_read(tmp_path: Path, frame: str) -> None:
    samples = read(tmp_path, f"a 7 1.000000: x: \n\t    {frame}\n\n").samples()

    assert samples.stacks.frames_of(int(samples.stack[0])) == [FRAMES[frame]]


def test_stacks_begin_with_the_outermost_function_and_share_it(tmp_path: Path) -> None:
    text = "a 7 1.000000: x: \n\t1 leaf (x)\n\t  a.c:118\n\t2 main (x)\n\n"
    text += "a 7 2.000000: x: \n\t2 main (x)\n"
    samples = read(tmp_path, text).samples()

    assert [samples.stacks.frames_of(int(row)) for row in samples.stack] == [
        ["main", "leaf"],
        ["main"],
    ]
    assert len(samples.stacks) == 2


def test_methods_of_java_that_were_inlined_are_frames(tmp_path: Path) -> None:
    history = read(
        tmp_path,
        "java 1 1.000000: 10 cpu-clock:\n\t7f Lu/A;::a->Lb/B;::b->Lc/C;::c (/tmp/p.map)\n"
        "\t80 Interpreter (/tmp/perf-1.map)\n\n"
        "java 1 1.000010: 10 cpu-clock:\n\t7f Lu/A;::a (/tmp/p.map)\n"
        "\t7f std::Ptr::operator->Lx (/bin/a)\n\t80 Interpreter (/tmp/perf-1.map)\n\n",
    )

    samples = history.samples()
    found = [samples.stacks.frames_of(stack) for stack in samples.stack.tolist()]
    assert found == [
        ["Interpreter", "Lu/A;::a", "Lb/B;::b", "Lc/C;::c"],
        ["Interpreter", "std::Ptr::operator->Lx", "Lu/A;::a"],
    ]


def test_frames_without_indentation_belong_to_the_sample_before(tmp_path: Path) -> None:
    samples = read(
        tmp_path, "java 19983 1.000000: cycles:\nff01 leaf (x)\n    ff02 main (x)\n"
    ).samples()

    assert samples.stacks.frames_of(int(samples.stack[0])) == ["main", "leaf"]


def test_records_are_not_samples_and_lost_ones_are_counted(tmp_path: Path) -> None:
    text = (
        "swapper 0 [000] 0.000000: PERF_RECORD_FORK(1:1):(0:0)\n"
        "a 7 [000] 1.000000: x: \n\n"
        "b 8 [000] 3.000000: PERF_RECORD_LOST lost 40\n"
        "a 7 [000] 4.000000: x: \n\n"
    )
    history = read(tmp_path, text)

    assert [row[0] for row in rows(history)] == [10**9, 4 * 10**9]
    assert history.anomalies["lost_events"] == 40
    assert list(history.lost) == [(10**9, 3 * 10**9)]
    assert history.bounds == (10**9, 4 * 10**9 + 1)


def test_samples_out_of_order_are_all_there(tmp_path: Path) -> None:
    text = "a 7 3.000000: x: \n\na 7 1.000000: x: \n\na 7 2.000000: x: \n\n"

    assert [row[0] // 10**9 for row in rows(read(tmp_path, text))] == [1, 2, 3]


def test_comments_at_the_head_name_the_clock(tmp_path: Path) -> None:
    text = (
        "# ========\n# captured on    : Sat Sep  4 10:27:47 2021\n# hostname : web1\n"
        "# clockid: monotonic (1)\n"
        "# reference time: 2020 = 1595853472.123456 (TOD) = 100.123456 (MONOTONIC)\n"
        "# ========\n#\na 7 101.000000: x: \n\n"
    )
    clock = read(tmp_path, text).clock

    assert (clock.kind, clock.host) == ("monotonic", "web1")
    assert clock.utc_at_origin_ns == 1_595_853_372_000_000_000


@pytest.mark.parametrize(
    "text",
    [
        "java 19983 cycles:\nffffffff8103d0ca native_write_msr_safe ([kernel.kallsyms])\n\n",
        "node-v011 31912 cpu-clock: \n            13a80b608e0a RegExp (/tmp/perf-7539.map)\n",
        "# ========\n# captured on: Thu\n# ========\n#\nfunc_ab 7 cpu-clock: \n\t  40 f (x)\n",
    ],
)
def test_a_text_without_times_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"perf\.txt: this perf script text has no time"):
        read(tmp_path, text)


def test_a_text_of_records_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no sample"):
        read(tmp_path, "swapper 0 [000] 0.000000: PERF_RECORD_FORK(1:1):(0:0)\n")


def test_lines_that_are_nothing_are_counted(tmp_path: Path) -> None:
    text = "a 7 1.000000: x: \n\nwhat is this\n\na 7 2.000000: x: \nprog 7 3.0000\n"

    assert dict(read(tmp_path, text).anomalies) == {"unknown_line": 2}


def test_a_time_beyond_64_bits_is_counted(tmp_path: Path) -> None:
    history = read(tmp_path, "a 7 18446744073.709551: x: \na 7 2.000000: x: \n")

    assert (len(history.samples()), dict(history.anomalies)) == (1, {"event_without_time": 1})


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_a_block_may_end_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    text = "".join(f"a b 7 [000] {i}.000000: x: \n{STACK}" for i in range(1, 12))
    whole = read(tmp_path, text)
    monkeypatch.setattr("meantime.readers.window.BLOCK_BYTES", step)

    parts = read(tmp_path, text)

    assert rows(parts) == rows(whole)
    assert parts.samples().stack.tolist() == whole.samples().stack.tolist() == [1] * 11
    assert parts.anomalies.keys() == []


def test_a_cut_compressed_text_is_reported(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(b"a 7 %d.000000: x: \n\n" % i for i in range(1, 5000)))

    history = read(tmp_path, packed[: len(packed) // 2])

    assert history.anomalies["truncated"] == 1
    assert 1 < len(history.samples()) < 4999


def test_samples_of_other_threads_and_later_times_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "perf.txt"
    path.write_text("a 7 1.000000: x: \n\nb 8 2.000000: x: \n\na 7 3.000000: x: \n")

    kept = build(open_trace(path, until_ns=2 * 10**9, keep=lambda name: name == "a"))

    assert kept.samples().time_ns.tolist() == np.array([10**9]).tolist()


def test_a_real_text_gives_its_threads_and_stacks(samples: Path) -> None:
    history = build(open_trace(samples / "perf" / "idle-and-java.txt"))

    table = history.samples()
    assert table.time_ns[[0, -1]].tolist() == [5_076_100_000_000, 5_117_999_999_000]
    assert Counter(table.name.to_list()) == {"java": 5, "swapper": 4}
    idle = table.stacks.frames_of(int(table.stack[table.name.to_list().index("swapper")]))
    assert idle[0] in {
        "start_secondary",
        "x86_64_start_kernel",
        "cpu_bringup_and_idle",
        "start_kernel",
    }


def switch(time: str, cpu: int, prev: tuple[str, int, str], after: tuple[str, int]) -> str:
    return (
        f"{prev[0]} {prev[1]} [{cpu:03}] {time}: sched:sched_switch: prev_comm={prev[0]} "
        f"prev_pid={prev[1]} prev_prio=120 prev_state={prev[2]} ==> next_comm={after[0]} "
        f"next_pid={after[1]} next_prio=120\n"
    )


def states(history: History, tid: int) -> list[tuple[int, int | None, object]]:
    """Return when each state began and ended, in microseconds, and the state."""
    quark = history.quark("Threads", str(tid), "Status")
    return [
        (each.start_ns // 1000, each.end_ns // 1000, each.value)
        for each in history.intervals([quark], *history.bounds)
        if each.value is not None
    ]


def test_switches_say_the_state_of_each_thread(tmp_path: Path) -> None:
    text = (
        switch("0.000100", 0, ("swapper/0", 0, "R"), ("a", 7))
        + switch("0.000150", 1, ("swapper/1", 0, "R"), ("b", 8))
        + switch("0.000200", 0, ("a", 7, "S"), ("b 1 ==> x", 9))
        + switch("0.000250", 0, ("b 1 ==> x", 9, "R+"), ("a", 7))
        + switch("0.000300", 0, ("a", 7, "D"), ("swapper/0", 0))
    )
    history = read(tmp_path, text)

    assert states(history, 7) == [
        (100, 200, "running"),
        (200, 250, "sleeping"),
        (250, 300, "running"),
        (300, 300, "blocked"),
    ]
    assert states(history, 9) == [(200, 250, "running"), (250, 300, "preempted")]
    # nothing says what it did on its CPU
    assert states(history, 8) == [(150, 300, "unknown")]
    assert history.names[history.quark("Threads", "9")] == "b 1 ==> x"


def test_a_thread_that_has_exited_is_in_no_state(tmp_path: Path) -> None:
    text = (
        switch("0.000100", 0, ("swapper/0", 0, "R"), ("a", 7))
        + switch("0.000200", 0, ("a", 7, "X"), ("b", 8))
        + switch("0.000300", 0, ("b", 8, "Z"), ("c", 9))
        + switch("0.000400", 0, ("c", 9, "S"), ("swapper/0", 0))
    )
    history = read(tmp_path, text)

    assert states(history, 7) == [(100, 200, "running")]
    assert states(history, 8) == [(200, 300, "running")]


def test_switches_are_drawn_as_one_map_of_named_threads_in_the_colours_of_their_states(
    tmp_path: Path,
) -> None:
    text = (
        switch("0.000100", 0, ("swapper/0", 0, "R"), ("worker", 7))
        + switch("0.000200", 0, ("worker", 7, "D"), ("a b", 12))
        + switch("0.000300", 0, ("a b", 12, "R+"), ("worker", 7))
        + switch("0.000400", 0, ("worker", 7, "S"), ("swapper/0", 0))
    )
    cpus, panel, on_cpus = statemap.build([read(tmp_path, text)]).panels

    assert (cpus.entities, on_cpus.entities) == (["CPUs/0"], ["CPUs/0/Thread"])
    assert panel.entities == ["a b 12", "worker 7"]
    assert [(state.name, state.color) for state in panel.states] == [
        ("running", "#1d8759"),
        ("preempted", "#e58a5b"),
        ("blocked", "#b90005"),
        ("sleeping", "#d1d5dd"),
    ]


def test_time_after_a_lost_switch_is_nobodys(tmp_path: Path) -> None:
    text = (
        switch("0.000100", 0, ("swapper/0", 0, "R"), ("a", 7))
        + switch("0.000200", 0, ("b", 8, "S"), ("a", 7))
        + switch("0.000300", 0, ("a", 7, "S"), ("b", 8))
    )
    history = read(tmp_path, text)

    assert states(history, 7) == [
        (100, 200, "unknown"),
        (200, 300, "running"),
        (300, 300, "sleeping"),
    ]
    assert states(history, 8)[0] == (200, 300, "sleeping")


def test_a_thread_that_leaves_a_cpu_which_it_came_to_unseen_was_in_no_known_state(
    tmp_path: Path,
) -> None:
    waking = "x 5 [001] {}: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=000\n"
    text = (
        waking.format("0.000100")
        + switch("0.000200", 0, ("b", 8, "S"), ("a", 7))
        + waking.format("0.000250")
        + switch("0.000300", 0, ("b", 8, "S"), ("a", 7))
        + switch("0.000400", 0, ("a", 7, "S"), ("b", 8))
    )
    history = read(tmp_path, text)

    # woken, and run since some time after that
    assert states(history, 8) == [
        (100, 200, "unknown"),
        (200, 250, "sleeping"),
        (250, 300, "unknown"),
        (300, 400, "sleeping"),
        (400, 400, "running"),
    ]


def test_an_interrupt_whose_end_is_missing_ends_at_a_switch_for_wake_ups(tmp_path: Path) -> None:
    waking = "a 7 [000] {}: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=000\n"
    text = (
        switch("0.000100", 0, ("b", 8, "S"), ("a", 7))
        + "a 7 [000] 0.000110: irq:softirq_entry: vec=1 [action=TIMER]\n"
        + waking.format("0.000120")
        + switch("0.000200", 0, ("a", 7, "R"), ("b", 8))
        + switch("0.000300", 0, ("b", 8, "S"), ("a", 7))
        + waking.format("0.000350")
    )
    history = read(tmp_path, text)

    # not the wake-up in the interrupt
    assert history.flows().from_ns.tolist() == [350_000]


def test_what_ran_while_perf_lost_records_of_a_cpu_is_unknown(tmp_path: Path) -> None:
    text = (
        switch("0.000100", 0, ("swapper/0", 0, "R"), ("a", 7))
        + switch("0.000100", 1, ("swapper/1", 0, "R"), ("b", 8))
        + "b 8 [001] 0.000120: x: \n\n"
        + "a 7 [000] 0.000200: PERF_RECORD_LOST lost 3\n"
        + switch("0.000300", 0, ("a", 7, "S"), ("swapper/0", 0))
        + switch("0.000300", 1, ("b", 8, "S"), ("swapper/1", 0))
        + "a 7 [000] 0.000400: PERF_RECORD_LOST lost 4\n"
    )
    history = read(tmp_path, text)

    # it left as if it had run all the time
    assert states(history, 7) == [(100, 300, "unknown"), (300, 300, "sleeping")]
    assert states(history, 8)[0] == (100, 300, "running")
    assert dict(history.anomalies) == {"lost_events": 7, "unknown_time": 1}
    assert [tuple(each) for each in history.lost] == [(100_000, 300_000), (300_000, 400_000)]


def test_switches_are_read_in_their_older_form(tmp_path: Path) -> None:
    text = (
        "swapper 0 [001] 1.000000: sched:sched_switch: swapper/1:0 [120] R ==> redis:x:4735 [120]\n"
        "redis:x 4735 [001] 1.000009: sched:sched_switch: "
        "redis:x:4735 [120] S ==> swapper/1:0 [120]\n"
    )
    history = read(tmp_path, text)

    assert states(history, 4735)[0] == (1_000_000, 1_000_009, "running")


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "prev_comm=a prev_pid=7",
        "prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> ",
        "prev_comm=a prev_pid=x prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=1",
        " ==> next_comm=b next_pid=8 next_prio=1",
        "a:7 [120] ==> b:8 [120]",
        "] ==> ]",
    ],
)
def test_a_switch_with_other_fields_is_still_a_sample(tmp_path: Path, payload: str) -> None:
    history = read(tmp_path, f"a 7 [000] 1.000000: sched:sched_switch: {payload}\n")

    assert len(history.samples()) == 1
    assert history.attributes.find("Status", parent=history.quark("Threads", "7")) is None


def test_switches_without_cpus_are_samples_alone(tmp_path: Path) -> None:
    text = switch("1.000000", 0, ("a", 7, "S"), ("b", 8)).replace(" [000]", "")
    history = read(tmp_path, text)

    assert len(history.samples()) == 1
    assert history.attributes.find("Threads", "8") is None


def events(tmp_path: Path, text: str) -> list[Event]:
    path = tmp_path / "perf.txt"
    path.write_text(text)
    batches = open_trace(path, events=True).batches
    return [event for batch in batches if isinstance(batch, Events) for event in batch]


def test_tracepoints_are_events_on_request(tmp_path: Path) -> None:
    text = (
        "a 3/7 [001] 2.000000: sched:sched_waking: comm=b c pid=8 prio=120 target_cpu=001\n"
        "a 3/7 [000] 1.000000: 10101010 cpu-clock:ppp:  7f41 main (/usr/bin/x)\n"
        "b 3/8 [000] 1.000000: 1 syscalls:sys_exit_read: 0x1b\n"
        "b 3/8 [000] 3.000000: irq:softirq_entry: vec=3 [action=NET_RX]\n\t7f41 main (/x)\n\n"
        "b 3/8 [000] 4.000000: my:probe:\n"
    )

    assert events(tmp_path, text) == [
        Event(1_000_000_000, "syscalls:sys_exit_read", {"ret": 27}, 0, 3, 8),
        Event(
            2_000_000_000,
            "sched:sched_waking",
            {"comm": "b c", "pid": 8, "prio": 120, "target_cpu": 1},
            *(1, 3, 7),
        ),
        Event(3_000_000_000, "irq:softirq_entry", {"vec": "3 [action=NET_RX]"}, 0, 3, 8),
        Event(4_000_000_000, "my:probe", {}, 0, 3, 8),
    ]


def test_a_switch_as_an_event_has_its_fields(tmp_path: Path) -> None:
    found = events(tmp_path, switch("1.000000", 0, ("a", 7, "R+"), ("b ==> c", 8)))

    assert found[0].fields == {
        "prev_comm": "a",
        "prev_pid": 7,
        "prev_prio": 120,
        "prev_state": "R+",
        "next_comm": "b ==> c",
        "next_pid": 8,
        "next_prio": 120,
    }


def test_a_provider_makes_states_of_tracepoints(tmp_path: Path) -> None:
    class Files(meantime.StateProvider):
        def handle(self, event: Event, state: meantime.HistoryBuilder) -> None:
            value = "in" if "enter" in event.name else None
            state.modify(event.time_ns, state.quark("Calls", str(event.tid)), value)

    path = tmp_path / "perf.txt"
    path.write_text(
        "a 3/7 [000] 1.000000: syscalls:sys_enter_read: fd: 0x3\n"
        "a 3/7 [000] 1.000005: syscalls:sys_exit_read: 0x0\n"
    )

    history = meantime.build(path, Files())

    assert [
        (each.start_ns, each.end_ns)
        for each in history.intervals([history.quark("Calls", "7")], *history.bounds)
        if each.value == "in"
    ] == [(1_000_000_000, 1_000_005_000)]


@pytest.mark.parametrize("shorter", [20, 5_000, 100_000])
def test_more_samples_than_a_batch_has_rows_for_are_all_read(tmp_path: Path, shorter: int) -> None:
    # in this layout a sample takes five bytes
    history = read(tmp_path, "1.000000:\t\tcpu-clock:\n" + "1.5:\n" * shorter)

    times = Counter(history.samples().time_ns.tolist())
    assert times == {1_000_000_000: 1, 1_000_005_000: shorter}


def test_a_scan_stops_when_its_columns_are_full_and_continues_there() -> None:
    text = b"a 7 1.000000: x: \n\t1 f (x)\n\nb 8 2.000000: y: \nc 9 3.000000: z: \n"
    reader = perf.PerfText(perf.IDS, True, False)
    time_ns, period, tail = np.empty(1, np.int64), np.empty(1, np.int64), np.empty((1, 2), np.int64)
    thread, cpu, event, stack = (np.empty(1, np.int32) for _ in range(4))
    found, start, full = [], 0, True
    while full:
        view = memoryview(text)[start:]
        done, rows, full = reader.scan(view, True, time_ns, period, thread, cpu, event, stack, tail)
        start += done
        found.append((rows, int(time_ns[0]), int(stack[0]), full))

    assert found == [
        (1, 1_000_000_000, 0, True),
        (1, 2_000_000_000, -1, True),
        (1, 3_000_000_000, -1, False),
    ]
    assert start == len(text)
    assert reader.threads_from(0) == [(b"a", b"7"), (b"b", b"8"), (b"c", b"9")]


@pytest.mark.parametrize(("rows", "tails"), [(0, None), (2, 1)])
def test_a_scan_takes_columns_of_one_length_only(rows: int, tails: int | None) -> None:
    reader = perf.PerfText(perf.IDS, True, False)
    numbers, codes = np.empty(rows, np.int64), np.empty(rows, np.int32)
    tail = None if tails is None else np.empty((tails, 2), np.int64)

    with pytest.raises(ValueError, match=r"^the (columns|tail) must have"):
        reader.scan(
            memoryview(b"x"), True, numbers, numbers.copy(), codes, codes.copy(), codes.copy(),
            codes.copy(), tail,
        )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "worker-1 [000] 1.000000:   10101010 cpu-clock:ppp: \n",
        "worker-1 [000] 1.000000: sched:sched_waking: comm=b\n",
        "worker-1 12 [000] 1.000000: cycles: \n",
    ],
)
def test_names_that_end_like_those_of_ftrace_are_read(tmp_path: Path, text: str) -> None:
    assert len(read(tmp_path, text).samples()) == 1


def test_an_event_whose_fields_differ_is_counted(tmp_path: Path) -> None:
    sample = "a 7 [000] 1.000000: x: \n\t1 f (x)\n"
    other = "C2 Comp-7 1.000001: y: \n"

    history = read(tmp_path, sample * 3 + other + sample + "\n" + other)

    assert dict(history.anomalies) == {"unread_event": 2}
    assert history.samples().stacks.frames == ["f"]
    assert len(history.samples()) == 4


def scan(reader: perf.PerfText, text: bytes, *, last: bool) -> tuple[int, int, bool]:
    time_ns, period = np.empty(4, np.int64), np.empty(4, np.int64)
    thread, cpu, event, stack = (np.empty(4, np.int32) for _ in range(4))
    view = memoryview(text)
    return reader.scan(view, last, time_ns, period, thread, cpu, event, stack, None)


def test_an_event_whose_fields_differ_is_counted_once_in_blocks_of_any_size() -> None:
    text = b"a 7 [000] 1.000000: x: \nb 1.000001: y: \n\t1 f (x)\na 7 [000] 1.000002: x: \n"
    for end in range(len(text)):
        reader = perf.PerfText(perf.IDS | perf.CPU, True, False)
        done, _, _ = scan(reader, text[:end], last=False)
        scan(reader, text[done:], last=True)
        assert reader.unread_headers == 1


def test_a_record_that_continues_in_the_next_block_is_one() -> None:
    text = b"a 7 1.000000: PERF_RECORD_X 1\n... more of it\na 7 1.000000: x: \n"
    for end in range(len(text)):
        reader = perf.PerfText(perf.IDS, True, False)
        done, _, _ = scan(reader, text[:end], last=False)
        scan(reader, text[done:], last=True)
        assert (reader.records, reader.unknown_lines) == (1, 0)


def test_times_relative_to_the_event_before_are_refused(tmp_path: Path) -> None:
    times = ["0.000000", "0.010101", "0.009999", "0.010300"] + ["0.010101", "0.009000"] * 3

    with pytest.raises(InputError) as caught:
        read(tmp_path, "".join(f"a 7 {time}: x: \n" for time in times))

    assert caught.value.reason == (
        "the times are relative to the previous event: print the text without --deltatime"
    )


def test_times_relative_to_the_first_event_are_read(tmp_path: Path) -> None:
    text = "".join(f"a 7 0.{at:06d}: x: \n" for at in range(0, 100_000, 10_000))

    history = read(tmp_path, text)

    assert (len(history.samples()), dict(history.anomalies)) == (10, {})


def test_time_that_goes_back_far_is_counted(tmp_path: Path) -> None:
    # perf's own disorder is below a second
    text = "".join(f"a 7 {time}: x: \n" for time in ("5.0", "4.0", "9.5", "5.2", "4.3", "4.1"))

    history = read(tmp_path, text.replace(": x", "00000: x"))

    assert dict(history.anomalies) == {"time_went_back": 1}
    assert history.bounds == (4_000_000_000, 9_500_000_001)


def test_a_switch_to_a_state_of_any_byte_is_read(tmp_path: Path) -> None:
    switch = "sched:sched_switch: x:1 [120] S ==> y:2 [120]"
    text = f"x 1 [000] 1.000000: {switch}\ny 2 [000] 2.000000: {switch}\n".encode()

    history = read(tmp_path, text.replace(b"] S", b"] \xe9"))

    states = history.intervals([history.quark("Threads", "1", "Status")]).value
    assert "\xe9" in list(states.names)


@pytest.mark.parametrize("digits", ["9" * 18, "9" * 19, "9" * 5000])
def test_events_of_threads_with_any_id_are_read(tmp_path: Path, digits: str) -> None:
    path = tmp_path / "perf.txt"
    path.write_text(f"x {digits} [000] 1.000000: sched:sched_waking: comm=a pid=1\n")

    (found,) = open_trace(path, events=True).batches

    assert isinstance(found, Events)
    assert [event.tid for event in found] == [int(digits) if len(digits) < 19 else None]


def test_a_switch_at_the_end_of_a_block_is_read_once() -> None:
    switch = "sched:sched_switch: x:{} [120] S ==> y:{} [120]"
    text = (
        f"x 1 [000] 1.000000: {switch.format(1, 2)}\n\t1 f (x)\n\n"
        f"y 2 [000] 2.000000: {switch.format(2, 1)}\n"
    ).encode()
    for end in range(len(text)):
        reader = perf.PerfText(perf.IDS | perf.CPU, True, True)
        done, _, _ = scan(reader, text[:end], last=False)
        scan(reader, text[done:], last=True)
        found = reader.records_so_far()
        tids, _ = reader.ids_so_far()
        assert found["time_ns"].tolist() == [1_000_000_000, 2_000_000_000]
        assert tids[found["thread"]].tolist() == [1, 2]
        assert tids[found["other"]].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("rest", "stack"),
    [
        ("2004008 cpu-clock:  7f2b5eaff69e parse+0x7e (/usr/lib/libapp.so)", ["parse"]),
        ("cycles:u:  55d0a1 main+0x14 (/usr/bin/app)", ["main"]),
        ("cycles:  7f7865eacc18 [unknown] (/usr/lib/libapp.so)", ["[libapp.so]"]),
        ("cycles:  7f7865eacc18 operator new(unsigned long)+0x1", ["operator new(unsigned long)"]),
        ("7f7865eacc18 main+0x1 (/usr/bin/app)", ["main"]),
        (
            "block:block_rq_issue: 8,0 R 4096 () ffffffff8bee blk_mq_start ([kernel.kallsyms])",
            ["blk_mq_start"],
        ),
        ("sched:sched_wakeup: comm=(a) pid=1 prio=120 target_cpu=000", []),
        ("cycles: \n\t55d0a1 inner (/a)\n\t55d0a2 outer (/a)\n", ["outer", "inner"]),
        (
            "cycles: 55d0a1 inner (/a)\n\t55d0a1 inner (/a)\n\t55d0a2 outer (/a)\n",
            ["outer", "inner"],
        ),
    ],
)
def test_a_frame_on_the_line_of_its_event_is_a_stack(
    tmp_path: Path, rest: str, stack: list[str]
) -> None:
    samples = read(tmp_path, f"app 101 3487.825911: {rest}\n").samples()

    assert (samples.stacks.frames_of(int(samples.stack[0])) if stack else samples.stack[0]) == (
        stack or -1
    )


_CYCLES = "250000 cycles: \n\tff {frame}+0x0 (/bin/x)\n\n"


def _switch_text(name: str, tid: int, letter: str, coming: str, next_tid: int) -> str:
    return (
        f"sched:sched_switch: prev_comm={name} prev_pid={tid} prev_prio=120 prev_state={letter}"
        f" ==> next_comm={coming} next_pid={next_tid} next_prio=120\n\n"
    )


@pytest.mark.parametrize("by", ["switches", "records"])
def test_samples_of_an_id_that_is_used_again_are_of_each_thread(by: str, tmp_path: Path) -> None:
    def line(name: str, tid: int, ms: int, rest: str) -> str:
        ids = f"{tid}/{tid}" if by == "records" else str(tid)
        return f"{name} {ids} [000] 1.{ms:03}000: {rest}"

    ends = {
        "switches": (
            line("old", 77, 3, _switch_text("old", 77, "X", "swapper/0", 0)),
            line("swapper", 0, 4, _switch_text("swapper/0", 0, "R", "new", 77)),
        ),
        "records": (
            line("old", 77, 3, "PERF_RECORD_EXIT(77:77):(60:60)\n"),
            line("sh", 60, 4, "PERF_RECORD_FORK(77:77):(60:60)\n"),
        ),
    }[by]
    before = [line(name, 77, ms, _CYCLES.format(frame="f")) for ms, name in ((1, "sh"), (2, "old"))]
    after = [line("new", 77, ms, _CYCLES.format(frame="g")) for ms in (5, 6)]

    history = read(tmp_path, "".join([*before, *ends, *after]))

    samples = history.samples(event="cycles")
    whose = [history.attributes.path(int(quark))[-1] for quark in samples.thread]
    assert whose == ["77", "77", "77#2", "77#2"]
    names = [history.names[quark] for quark in dict.fromkeys(samples.thread.tolist())]
    assert names == ["old", "new"]
