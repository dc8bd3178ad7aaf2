"""Recording a system: what is missing is said, what was printed is put in order, nothing stays."""

from __future__ import annotations

import gzip
import json
import os
import platform
import signal
import stat
import struct
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import meantime
from meantime.cli import main
from meantime.errors import MeantimeError, UsageError
from meantime.system import checks, children, postgres, with_bpftrace, with_tracefs
from meantime.system.kinds import KINDS

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux is recorded")

SCRIPTS = {
    "cpu": {"user thread", "kernel thread", "irq", "softirq"},
    "cpu-tagged": {"user thread", "kernel thread", "irq", "softirq"},
    "threads": {"on-cpu", "runnable", "timer", "child", "exited"},
    "command": {"on-cpu", "runnable", "sleeping", "disk wait"},
    "block": {"no requests", "1", "2", "3"},
    "requests": {"none", "queued", "read", "write", "flush"},
    "postgres": {"on-cpu", "runnable", "client", "I/O", "lock", "LWLock", "main loop"},
}
HEAD = b' {"start":[1,1500000000],"title":"CPUs","entityKind":"CPU","states":{"a":{"value":0}}}\n'


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with everything but programs, on which we are root."""
    root = tmp_path / "machine"
    for kind in KINDS.values():
        for event in (*kind.probes, *kind.events):
            (root / "sys/kernel/tracing/events" / event.replace(":", "/")).mkdir(
                parents=True, exist_ok=True
            )
    (root / "sys/kernel/tracing/instances").mkdir()
    (root / "sys/kernel/btf").mkdir()
    (root / "sys/kernel/btf/vmlinux").touch()
    (root / "programs").mkdir()
    for needed in ("sh", "sort", "cat"):
        (root / "programs" / needed).symlink_to(f"/bin/{needed}")
    monkeypatch.setattr(checks, "_SYSTEM", root)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("PATH", str(root / "programs"))
    return root


def program(machine: Path, name: str, text: str) -> None:
    path = machine / "programs" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def bpftrace(machine: Path, printed: bytes, *, reported: str = "", status: int = 0) -> None:
    (machine / "printed").write_bytes(printed)
    program(
        machine,
        "bpftrace",
        f'[ "$1" = --version ] && echo "bpftrace v0.17.0" && exit\n'
        f"cat {machine}/printed\necho '{reported}' >&2\nexit {status}",
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_sample_of_each_script_is_read_without_anomalies(name: str, samples: Path) -> None:
    path = samples / "linux" / f"{name}.statemap.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    rows = [json.loads(line) for line in text.splitlines() if line]
    states = {
        row["value"]: called
        for head in rows
        if "states" in head
        for called, row in head["states"].items()
    }
    changes: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        if "time" in row and "state" in row:
            changes[row["entity"]].append((int(row["time"]), row["state"]))
    expected: Counter[tuple[str, str]] = Counter()
    end = max(changed[-1][0] for changed in changes.values())
    for entity, changed in changes.items():
        for (start, state), (until, _) in zip(changed, [*changed[1:], (end, 0)], strict=True):
            expected[entity, states[state]] += until - start

    history = meantime.open(path, strict=True)

    found: Counter[tuple[str, str]] = Counter()
    for entity in changes:
        for interval in history.iterate(entity, history.start_ns):
            if interval.value is not None:
                until_ns = min(interval.end_ns, end)
                found[entity, str(interval.value)] += until_ns - interval.start_ns
    assert +found == +expected
    assert {state for _, state in found} >= SCRIPTS[name]


def test_scripts_say_what_they_show_cost_and_need() -> None:
    folder = Path(with_bpftrace.__file__).parent / "bpftrace"

    names = {path.name.removesuffix("-statemap.bt") for path in folder.iterdir()}

    assert names == {name for name in SCRIPTS if name != "cpu-tagged"}
    for path in folder.iterdir():
        head = path.read_text().partition("*/")[0]
        assert all(f" * {word}: " in head for word in ("Shows", "Costs", "Needs")), path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_recording_by_sudo_is_the_user_s(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bpftrace(machine, HEAD + b'{"time":"1","entity":"0","state":0}\n')
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setenv("SUDO_GID", "65533")

    meantime.record_system("cpu", tmp_path / "cpu.statemap", duration="1s")

    state = (tmp_path / "cpu.statemap").stat()
    assert (state.st_uid, state.st_gid) == (65534, 65533)


def test_lines_of_several_cpus_are_put_in_order_and_losses_are_in_the_title(
    machine: Path, tmp_path: Path
) -> None:
    lines = [b'{"time":"%014d","entity":"%d","state":0}\n' % (i * 7 % 50, i % 2) for i in range(50)]
    bpftrace(
        machine,
        b"\n" + b"".join(lines) + HEAD + b'{"time":"000000',
        reported="Lost 5 events\nLost 1200 events",
    )

    found = meantime.record_system("cpu", tmp_path / "cpu.statemap", duration="1s")

    assert (found.method, found.lost, found.skipped) == ("bpftrace", 1205, 1)
    assert stat.S_IMODE((tmp_path / "cpu.statemap").stat().st_mode) == 0o600
    history = meantime.open(found.path, strict=True)
    assert history.metadata.title == "CPUs (1,205 events were lost)"
    text = Path(found.path).read_text().splitlines()
    times = [int(json.loads(line)["time"]) for line in text[1:]]
    assert times == sorted(times)
    assert len(times) == 50


def test_requests_are_counted_in_order_of_time(machine: Path, tmp_path: Path) -> None:
    line = '{"time":"%014d","entity":"8,0","state":%+d,"tag":"R"}\n'
    times = [(k, 1) for k in range(10)] + [(20 + k, -1) for k in range(10)]
    bpftrace(machine, HEAD + "".join(line % each for each in reversed(times)).encode())

    meantime.record_system("block", tmp_path / "b", duration=1)

    states = [json.loads(line)["state"] for line in (tmp_path / "b").read_text().splitlines()[1:]]
    assert states == [1, 2, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 4, 4, 4, 4, 3, 2, 1, 0]


def test_threads_are_called_by_all_names_that_they_had(machine: Path, tmp_path: Path) -> None:
    bpftrace(
        machine,
        b'{"time":"%014d","entity":"7","state":0}\n' % 1
        + b'{"description":"sh\\u0022 (7)","entity":"7"}\n'
        + HEAD
        + b'{"description":"a (b) (7)","entity":"7"}\n'
        + b'{"time":"%014d","entity":"8","state":0}\n' % 2,
    )

    meantime.record_system("threads", tmp_path / "t", duration=1)

    lines = [json.loads(line) for line in (tmp_path / "t").read_text().splitlines()[1:]]
    assert [line["entity"] for line in lines] == ['a (b), sh" (7)', "8"]


def test_a_program_that_fails_is_reported_and_leaves_no_file(machine: Path, tmp_path: Path) -> None:
    bpftrace(machine, b"", reported="ERROR: failed to attach", status=1)

    with pytest.raises(MeantimeError, match="bpftrace failed: ERROR: failed to attach"):
        meantime.record_system("threads", tmp_path / "out", pid=os.getpid())

    bpftrace(machine, b"")
    with pytest.raises(MeantimeError, match="recorded nothing: it takes some seconds to start"):
        meantime.record_system("threads", tmp_path / "out")
    assert not [path for path in tmp_path.iterdir() if path.is_file()]


def test_perf_records_where_bpftrace_is_not_installed(machine: Path, tmp_path: Path) -> None:
    switch = (
        "perf 1/1 [000] 5.000000001: sched:sched_switch: prev_comm=a prev_pid=1 prev_prio=120"
        " prev_state=S ==> next_comm=b next_pid=2 next_prio=120"
    )
    program(
        machine,
        "perf",
        f'if [ "$1" = record ]; then echo data; echo "$@" > {machine}/words; exit; fi\n'
        f"cat > {machine}/read; echo '{switch}'; echo 'Processed 9 events and lost 3 chunks!' >&2",
    )

    found = meantime.record_system("cpu", tmp_path / "sched.txt", duration="1.5s")

    assert (found.method, found.lost) == ("perf", 3)
    assert found.shown_by[1] == f"meantime why {tmp_path}/sched.txt --thread NAME"
    assert (tmp_path / "sched.txt").read_text() == f"{switch}\n"
    assert (machine / "read").read_text() == "data\n"
    words = (machine / "words").read_text()
    assert "-e sched:sched_switch" in words
    assert words.endswith("-- sleep 1.500000000\n")

    ignored = "'trace' not valid for unknown events. Ignoring."
    program(machine, "perf", f'if [ "$1" = record ]; then echo data; else echo "{ignored}" >&2; fi')
    with pytest.raises(MeantimeError, match=r"perf recorded no event$"):
        meantime.record_system("cpu", tmp_path / "none.txt", duration="1s")
    # what there is of a recording that could not be written is not all
    program(machine, "perf", 'echo data; for _ in 1 2; do echo "disk is full" >&2; done; exit 1')
    with pytest.raises(MeantimeError, match=r"perf record failed: disk is full$"):
        meantime.record_system("cpu", tmp_path / "none.txt", duration="1s")
    assert not (tmp_path / "none.txt").exists()


def test_threads_that_begin_while_a_process_is_chosen_are_followed(tmp_path: Path) -> None:
    tasks, chosen = tmp_path / "task", tmp_path / "set_event_pid"
    (tasks / "7").mkdir(parents=True)
    os.mkfifo(chosen)
    reader = os.open(chosen, os.O_RDONLY | os.O_NONBLOCK)
    listed = iter([["7"], ["7", "8"], ["7", "8"]])

    class Tasks:
        def iterdir(self) -> list[Path]:
            return [tasks / name for name in next(listed)]

    with_tracefs._follow(chosen, Tasks())  # type: ignore[arg-type] # what is used of a path
    assert os.read(reader, 100) == b"78"
    os.close(reader)


def test_what_is_missing_is_said_with_how_to_get_it(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / "sys/kernel/tracing/instances").rmdir()
    with pytest.raises(MeantimeError) as raised:
        meantime.record_system("cpu", tmp_path / "out", duration="1s")
    assert "bpftrace: is not installed (`apt install bpftrace` or" in str(raised.value)
    assert "perf: is not installed (`apt install linux-perf` (Debian)" in str(raised.value)
    assert "instances is not writable" in str(raised.value)

    bpftrace(machine, b"")
    cpu, server = KINDS["cpu"], KINDS["postgres"]
    assert checks.lacks("bpftrace", cpu) == []
    (machine / "sys/kernel/tracing/events/irq_vectors/reschedule_entry").rmdir()
    assert checks.lacks("bpftrace", cpu) == [
        "this kernel lacks the tracepoints irq_vectors:reschedule_entry"
    ]
    (machine / "sys/kernel/btf/vmlinux").unlink()
    assert "CONFIG_DEBUG_INFO_BTF=y" in checks.lacks("bpftrace", server)[0]
    (machine / "sys/kernel/security").mkdir()
    (machine / "sys/kernel/security/lockdown").write_text("none integrity [confidentiality]\n")
    assert "locked down" in checks.lacks("bpftrace", server)[1]
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "its script is for x86_64, and this is aarch64" in checks.lacks("bpftrace", cpu)
    program(machine, "bpftrace", "echo bpftrace v0.9.4")
    assert checks.lacks("bpftrace", server)[0].startswith("is version 0.9, and 0.17 or later")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert checks.lacks("bpftrace", server)[1:] == ["needs root (run it with sudo)"]
    assert "needs root (run it with sudo), or CAP_PERFMON" in checks.lacks("perf", cpu)
    assert checks.lacks("tracefs", cpu) == ["needs root (run it with sudo)"]


def test_wrong_arguments_are_refused(
    machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="--pid does not apply"):
        meantime.record_system("cpu", tmp_path / "out", pid=os.getpid())
    with pytest.raises(UsageError, match="there is no process"):
        meantime.record_system("threads", tmp_path / "out", pid=2**30)
    for duration in ("0s", "-1s", 0):
        with pytest.raises(UsageError, match="is not a duration"):
            meantime.record_system("cpu", tmp_path / "out", duration=duration)
    with pytest.raises(SystemExit) as left:
        main(["record-system", "cpu"])
    assert left.value.code == 2
    bpftrace(machine, HEAD, reported="Lost 2 events")
    with pytest.raises(SystemExit) as left:
        main(["record-system", "cpu", "-o", str(tmp_path / "out.statemap"), "--for", "1ms"])
    assert left.value.code == 0
    printed = capsys.readouterr()
    assert f"meantime statemap {tmp_path}/out.statemap -o {tmp_path}/out.svg" in printed.out
    assert "2 events were lost" in printed.err


def test_the_only_server_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_PROC", tmp_path)
    # as a 64-bit program: a header, then four sections: none, names, symbols, and nothing
    names = b"\0other\0my_wait_event_info\0"
    symbols = struct.pack("<IBBHQQ", 1, 0, 0, 1, 5, 8) + struct.pack(
        "<IBBHQQ", 7, 0, 0, 1, 0x875, 8
    )
    head = b"\x7fELF\x02\x01".ljust(16, b"\0") + struct.pack("<H", 3)
    head = head.ljust(40, b"\0") + struct.pack("<Q", 64) + b"\0" * 10 + struct.pack("<HH", 64, 3)
    at = 64 + 3 * 64
    rows = struct.pack("<IIQQQQIIQQ", *[0] * 10)
    rows += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, at, len(names), 0, 0, 0, 0)
    rows += struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, at + len(names), len(symbols), 1, 0, 0, 24)
    for pid, parent in ((7, 1), (8, 7), (9, 7)):
        folder = tmp_path / str(pid)
        (folder / "cwd").mkdir(parents=True)
        (folder / "comm").write_text("postgres\n")
        (folder / "stat").write_text(f"{pid} (postgres) S {parent} 0")
        (folder / "exe").write_bytes(head.ljust(64, b"\0") + rows + names + symbols)
        inode = (folder / "exe").stat().st_ino
        (folder / "maps").write_text(f"10000-20000 r--p 0 08:01 {inode} /postgres\n")
        (folder / "cwd" / "PG_VERSION").write_text("15\n")

    assert postgres.find_server(None) == (7, 0x10875, "15")
    with pytest.raises(UsageError, match="not the first of its server: use --pid 7"):
        postgres.find_server(8)
    with pytest.raises(UsageError, match="process 4 is not of a PostgreSQL server"):
        postgres.find_server(4)
    (tmp_path / "7" / "exe").write_bytes(b"#!/bin/sh")
    with pytest.raises(MeantimeError, match="it is not a 64-bit program"):
        postgres.find_server(7)
    (tmp_path / "7" / "stat").unlink()
    (tmp_path / "7" / "comm").unlink()
    with pytest.raises(UsageError, match="2 PostgreSQL servers run here: choose one with --pid"):
        postgres.find_server(None)


def test_events_of_a_server_have_names() -> None:
    names = postgres.event_names("15")

    # as pg_stat_activity called them on a server whose processes had these numbers
    assert names[0x0A000046] == "IO:WALSync"
    assert names[0x06000000] == "Client:ClientRead"
    assert names[0x03000005] == "Lock:transactionid"
    assert names[0x01000008] == "LWLock:WALWrite"
    assert names[0x05000003] == "Activity:BgWriterMain"
    # as PostgreSQL 17.10 called it; the numbers depend on the version
    assert postgres.event_names("17")[0x0A00004C] == "IO:WalWrite"
    assert [bool(postgres.event_names(str(each))) for each in range(13, 20)] == [
        False, True, True, True, True, True, False,
    ]  # fmt: skip


def test_instances_of_processes_that_are_gone_are_removed(tmp_path: Path) -> None:
    ours = f"meantime-{os.getpid()}-{with_tracefs._started(os.getpid())}"
    for name in (ours, f"meantime-{os.getpid()}-1", "meantime-0-5", "other"):
        (tmp_path / "instances" / name).mkdir(parents=True)
    # a directory of tracefs is removed with its files; these have none
    removed: list[Path] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(with_tracefs, "_remove", removed.append)
        found = with_tracefs.remove_stale(tmp_path)

    assert {path.name for path in found} == {f"meantime-{os.getpid()}-1", "meantime-0-5"}
    assert removed == found


def test_a_child_ends_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            """
import sys
from meantime.system.children import start, wait
child = start(["sleep", "600"], stdout=2, stderr=sys.stderr.buffer)
print(child.pid, flush=True)
wait(child)
""",
        ],
        stdout=subprocess.PIPE,
    )
    assert parent.stdout is not None
    with parent.stdout as printed:
        child = int(printed.readline())
        parent.kill()
        parent.wait()
    while _runs(child):
        time.sleep(0.01)


def test_a_child_is_stopped_as_by_ctrl_c(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        child = children.start(
            ["sh", "-c", "trap 'echo whole; exit 3' INT; echo begun; while :; do sleep 0.01; done"],
            stdout=out,
            stderr=out,
        )
        while (tmp_path / "out").read_text() != "begun\n":
            time.sleep(0.01)
        children.stop(child)

    assert child.returncode == 3
    assert (tmp_path / "out").read_text() == "begun\nwhole\n"


can_trace = pytest.mark.skipif(
    bool(checks.lacks("tracefs", KINDS["sched"])), reason="needs root and tracefs"
)


@can_trace
def test_tracefs_records_what_meantime_reads_and_removes_its_instance(tmp_path: Path) -> None:
    found = meantime.record_system("sched", tmp_path / "sched.txt", duration="50ms")

    assert found.method == "tracefs"
    history = meantime.open(found.path)
    assert history.metadata.clock is not None
    assert history.metadata.clock.kind == "monotonic"
    assert len(history.quarks("CPUs/*/Status"))
    assert not _instances(os.getpid())


@can_trace
def test_a_recording_that_is_killed_leaves_no_instance(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "meantime", "record-system", "sched", "-o", tmp_path / "s.txt"],
        stderr=subprocess.DEVNULL,
    )
    while not _instances(running.pid):
        assert running.poll() is None
        time.sleep(0.001)
    running.send_signal(signal.SIGKILL)
    running.wait()
    for _ in range(1500):
        if not _instances(running.pid):
            break
        time.sleep(0.02)

    assert not _instances(running.pid)
    assert not (tmp_path / "s.txt").exists()


def _instances(pid: int) -> list[Path]:
    root = checks.tracefs()
    assert root is not None
    return [*(root / "instances").glob(f"meantime-{pid}-*")]


def _runs(pid: int) -> bool:
    try:
        # one that has ended stays a zombie until someone asks for its status
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
