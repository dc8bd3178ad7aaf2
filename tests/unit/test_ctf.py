"""CTF traces: what babeltrace2 prints becomes the events of the kernel; what it refuses is said."""

from __future__ import annotations

import io
import os
import shutil
from typing import TYPE_CHECKING, cast

import pytest

import meantime
from meantime.errors import InputError
from meantime.readers.contract import ReadOptions
from meantime.readers.ctf import babeltrace, read_text
from meantime.readers.ctf.babeltrace import BabeltraceText

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History

KERNEL = """\
[1457113582.000001000] host sched_switch: { cpu_id = 1 }, { prev_comm = "swapper/1", prev_tid = 0, \
prev_prio = 20, prev_state = 0, next_comm = "a \\"b\\", c", next_tid = 7, next_prio = 20 }
[1457113582.000002000] host syscall_entry_read: { cpu_id = 1 }, { fd = 3, count = 16 }
[1457113582.000003000] host syscall_exit_read: { cpu_id = 1 }, { ret = 16, \
buf = [ [0] = 1, [1] = 2 ] }
[1457113582.000004000] host sched_wakeup: { cpu_id = 1 }, { comm = "db", tid = 9, prio = 20, \
target_cpu = 1 }
[1457113582.000005000] host irq_softirq_entry: { cpu_id = 1 }, { vec = 1 }
[1457113582.000006000] host irq_softirq_exit: { cpu_id = 1 }, { vec = 1 }
[1457113582.000007000] host sched_switch: { cpu_id = 1 }, { prev_comm = "a", prev_tid = 7, \
prev_prio = 20, prev_state = ( "TASK_UNINTERRUPTIBLE" : container = 2 ), next_comm = "db", \
next_tid = 9, next_prio = 20 }
[1457113582.000009000] host sched_switch: { cpu_id = 1 }, { prev_comm = "db", prev_tid = 9, \
prev_prio = 20, prev_state = 64, next_comm = "swapper/1", next_tid = 0, next_prio = 20 }
"""
PERF = """\
[979.417057183] sched:sched_wakeup: { perf_tid = 0, perf_cpu = 0, common_pid = 0, comm = "perf", \
pid = 18, prio = 120, success = 1, target_cpu = 0 }
[979.417073483] sched:sched_switch: { perf_tid = 0, perf_cpu = 0, prev_comm = "swapper/0", \
prev_pid = 0, prev_prio = 120, prev_state = 0, next_comm = "perf", next_pid = 18, next_prio = 120 }
[979.417083483] sched:sched_switch: { perf_tid = 18, perf_cpu = 0, prev_comm = "perf", \
prev_pid = 18, prev_prio = 120, prev_state = 1, next_comm = "swapper/0", \
next_pid = 0, next_prio = 120 }
"""
USER = """\
[1378850463.000000100] vm r6:state: { cpu_id = 1 }, { vpid = 8, vtid = 42, procname = "w-0" }, \
{ worker = 0, state = ( "io" : container = 2 ) }
[1378850463.000000200] vm lttng_ust_cyg_profile:func_entry: { cpu_id = 0 }, { procname = "w-0", \
vtid = 42 }, { addr = 0x40472B, call_site = 0x7F3CCB59DEA5 }
[1378850463.000000900] vm lttng_ust_cyg_profile:func_exit: { cpu_id = 0 }, { procname = "w-0", \
vtid = 42 }, { addr = 0x40472B, call_site = 0x7F3CCB59DEA5 }
"""


def read(text: str | bytes, *, is_old: bool = False) -> History:
    data = text if isinstance(text, bytes) else text.encode()
    running = BabeltraceText("trace", io.BytesIO(data), is_old=is_old)
    return meantime.build(read_text(running, ReadOptions()))


def states(history: History, tid: str) -> list[tuple[int, int, object]]:
    found = history.intervals(history.quark("Threads", tid, "Status"), *history.bounds)
    base = 1_457_113_582 * 10**9
    return [
        ((each.start_ns - base) // 1000, (each.end_ns - base) // 1000, each.value)
        for each in found
        if each.value is not None
    ]


def test_events_of_lttng_are_those_of_the_kernel() -> None:
    history = read(KERNEL, is_old=True)

    assert history.names[history.quark("Threads", "7", "Status")] == 'a "b", c'
    assert states(history, "7") == [(1, 7, "running"), (7, 9, "blocked")]
    # 64 is TASK_DEAD: after that there is no state
    assert states(history, "9") == [(4, 7, "runnable"), (7, 9, "running")]
    flows = history.flows()
    assert flows.name.to_list() == ["wakes"]
    assert int(flows.from_quark[0]) == history.quark("Threads", "7", "Status")
    spans = history.spans()
    assert sorted(filter(None, spans.name.to_list())) == ["TIMER", "read"]
    assert history.clock.utc_at_origin_ns == 0
    assert not history.anomalies


def test_a_call_that_never_returns_ends_with_its_thread() -> None:
    lines = KERNEL.splitlines(keepends=True)
    call = "[1457113582.000008000] host syscall_entry_exit: { cpu_id = 1 }, { error_code = 0 }\n"
    spans = read("".join([*lines[:-1], call, lines[-1]]), is_old=True).spans()

    at = spans.name.to_list().index("exit")
    assert int(spans.end_ns[at] - spans.start_ns[at]) == 1000


def test_masks_of_states_depend_on_the_kernel() -> None:
    assert states(read(KERNEL), "9")[-1] == (9, 9, "parked")


def test_perf_has_its_own_names() -> None:
    history = read(PERF)

    found = history.intervals(history.quark("Threads", "18", "Status"))
    assert [each.value for each in found] == ["runnable", "running", "sleeping"]
    assert history.clock.kind == "monotonic"


def test_entries_and_exits_of_functions_are_spans() -> None:
    history = read(USER)

    spans = history.spans()
    assert spans.name.to_list() == ["0x40472B"]
    assert (spans.end_ns - spans.start_ns).tolist() == [700]
    assert "r6.state" in history.samples().event.to_list()


@pytest.mark.parametrize("cut", [1, 7, 60, 170, 300])
def test_text_cut_anywhere_is_read_as_far_as_it_goes(cut: int) -> None:
    whole = KERNEL.encode()
    for size in range(cut, len(whole), 97):
        try:
            read(whole[:size])
        except InputError as error:
            assert "no events" in str(error)  # noqa: PT017 - some have


def test_a_line_that_is_no_event_is_counted() -> None:
    history = read("[warning] of something\n" + PERF + "[1.5] x: { cpu_id = 99999 }, { }\n")

    assert history.anomalies["unknown_line"] == 2


@pytest.mark.parametrize("fields", ["a = 1 )", "a = ]", ")", "a = ( 1", 'a = "\\', "a = 1, ]"])
def test_brackets_that_do_not_match_make_a_line_unknown(fields: str) -> None:
    history = read(PERF + f"[979.500000000] e: {{ cpu_id = 0 }}, {{ {fields} }}\n")

    assert history.anomalies["unknown_line"] == 1


def test_long_events_and_many_fields_are_read() -> None:
    long = "y" * 2_000_000
    many = ", ".join(f"f{each} = {each}" for each in range(200))
    extra = f'[979.500000000] e: {{ cpu_id = 0 }}, {{ text = "{long}" }}\n'
    history = read(PERF + extra + f"[979.600000000] e: {{ cpu_id = 0 }}, {{ {many} }}\n")

    assert dict(history.anomalies) == {"unread_fields": 105, "unknown_time": 1}


def test_an_event_that_does_not_end_is_refused_before_it_is_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(babeltrace, "_MOST_LINE_BYTES", 1 << 19)

    class Endless:
        def readinto(self, room: memoryview) -> int:
            room[:] = b"x" * len(room)
            return len(room)

        def close(self) -> None:
            pass

    running = BabeltraceText("trace", cast("io.RawIOBase", Endless()), is_old=False)
    with pytest.raises(InputError, match="trace: an event is longer than"):
        read_text(running, ReadOptions())


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    folder = tmp_path / "session" / "kernel"
    folder.mkdir(parents=True)
    (folder / "metadata").write_bytes(b'/* CTF 1.8 */\nenv { hostname = "web1"; };')
    return folder.parent


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "babeltrace2"
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_a_directory_is_read_by_the_program(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text(PERF)
    install(
        tmp_path,
        monkeypatch,
        f"cat {tmp_path}/text\n"
        "echo 'Tracer discarded 37 events between [979.417060000] and [979.417070000]' >&2\n",
    )
    history = meantime.open(trace)

    assert history.metadata.format == "ctf"
    assert history.clock.host == "web1"
    assert dict(history.anomalies) == {"lost_events": 37, "unknown_time": 1}
    assert list(history.lost) == [(979417060000, 979417070000)]


def test_what_the_program_refuses_is_one_line(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        tmp_path,
        monkeypatch,
        "echo 'CAUSED BY [muxer] (muxer.c:1076)\n  The time\n  went back:\n  x=1' >&2; exit 1",
    )
    with pytest.raises(InputError, match=r"babeltrace2 cannot read it: The time went back$"):
        meantime.open(trace)


def test_without_the_program_the_error_says_how_to_get_it(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="apt install babeltrace2"):
        meantime.open(trace)


def test_ctf_2_needs_a_newer_program(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (trace / "kernel" / "metadata").write_bytes(b'\x1e{"type": "preamble", "version": 2}\n')
    install(tmp_path, monkeypatch, "echo 'Babeltrace 2.0.4'")
    with pytest.raises(InputError, match=r"CTF 2 trace: babeltrace2 2.1 or later.* is 2\.0"):
        meantime.open(trace)


@pytest.mark.skipif(shutil.which("babeltrace2") is None, reason="babeltrace2 is not installed")
def test_a_damaged_trace_is_refused_by_the_real_program(trace: Path) -> None:
    with pytest.raises(InputError, match=r"babeltrace2 cannot read it|has no events"):
        meantime.open(trace)
