"""Reading text of strace: the forms of its lines, what follows from calls, and bad input."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.errors import InputError
from meantime.kernels.strace import StraceText
from meantime.readers import strace

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history.history import History


def read(tmp_path: Path, *lines: str, name: str = "trace.txt") -> History:
    path = tmp_path / name
    path.write_text("".join(line + "\n" for line in lines))
    return meantime.open(path)


def calls(history: History) -> list[tuple[str, int, int]]:
    """Return each call with its begin and its length in us, from the begin of the history."""
    spans = history.spans()
    begin = history.bounds[0]
    return [
        (str(spans.name[row]), (start - begin) // 1000, (end - start) // 1000)
        for row, (start, end) in enumerate(
            zip(spans.start_ns.tolist(), spans.end_ns.tolist(), strict=True)
        )
    ]


def arguments(history: History, row: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(history.spans().arguments(row) or "")
    return found


def states(history: History, *path: str) -> list[tuple[int, int, object]]:
    begin = history.bounds[0]
    return [
        ((each.start_ns - begin) // 1000, (each.end_ns - begin) // 1000, each.value)
        for each in history.intervals([history.quark(*path, "Status")], *history.bounds)
        if each.value is not None
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[Sun Dec 04 04:47:44 2005] [notice] jk_init() Found child 6725 in slot 10\n[Sun] x\n",
        "import os\n\n\ndef f(a, b):\n    g(a)\n\n\nf(\n    1,\n)\nprint(f(2))\n",
        "set(x, 1)\nfoo(i) = bar\nbaz(\n",
        "10:00:00 started(1)\n10:00:01 stopped(2)\n",
        "+++ b/src/x.py\n--- a/src/x.py\n",
    ],
)
def test_other_text_with_names_and_brackets_is_not_strace(text: str) -> None:
    assert not strace.recognises(text.encode(), "x")


@pytest.mark.parametrize(
    "text",
    [
        'open("/x", O_RDONLY) = 3\nread(3, "a"...\n',
        "7 1770000000.123456 sched_frobnicate(1) = 0 <0.000010>\n",
        "[pid  7] 10:00:00 unheard_of(1 <unfinished ...>\n",
        "10:00:00.5 +++ exited with 0 +++\n",
        "7 --- SIGCHLD {si_signo=SIGCHLD} ---\n",
    ],
)
def test_calls_that_are_known_or_have_a_time_are_strace(text: str) -> None:
    assert strace.recognises(text.encode(), "x")


@pytest.mark.parametrize("name", ["threads-and-children.txt.gz", "attach.txt"])
def test_calls_agree_with_independent_counts(samples: Path, name: str) -> None:
    facts = json.loads((samples / "strace" / "facts.json").read_text())[name]
    history = meantime.open(samples / "strace" / name)
    spans, points = history.spans(), Counter(history.points().name.to_list())
    names = [str(spans.name[row]) for row in range(len(spans))]
    lengths = Counter[str]()
    for call, length in zip(names, (spans.end_ns - spans.start_ns).tolist(), strict=True):
        lengths[call] += length
    errors = Counter(
        f"{call} {found['error'].split()[0]}"
        for row, call in enumerate(names)
        if "error" in (found := arguments(history, row))
    )
    assert Counter(names) == facts["calls_by_name"]
    assert {call: lengths[call] for call in facts["ns_in_calls_by_name"]} == facts[
        "ns_in_calls_by_name"
    ]
    assert errors == facts["errors_by_kind"]
    assert {key: count for key, count in points.items() if str(key).startswith("SIG")} == facts[
        "signals"
    ]
    assert len(set(spans.thread.tolist())) == facts["threads"]
    assert history.metadata.records == facts["rows"]
    assert not spans.lane.any()


_CALL = 'openat(AT_FDCWD, "/a) = 3 <0.5>", O_RDONLY) = -1 ENOENT (No such file or directory)'


@pytest.mark.parametrize(
    ("prefix", "after", "first_ns"),
    [
        ("7 1700000000.000001 ", " <0.000005>", 1_700_000_000_000_001_000),
        ("7<sh> 1700000000.000001 ", " <0.000005>", 1_700_000_000_000_001_000),
        ("[pid     7] 1700000000.000001234 ", " <0.000005000>", 1_700_000_000_000_001_234),
        ("1700000000 ", " <0.000005>", 1_700_000_000_000_000_000),
        ("7 10:00:00.000001 ", " <0.000005>", 36_000_000_001_000),
        ("7 10:00:00 (+     0.000002) ", " <0.000005>", 36_000_000_000_000),
        ("7      0.000001 ", " <0.000005>", 1_000),
        ("     0.000001 ", " <0.000005>", 1_000),
        ("7 1700000000.000001 [ 257] [00007f0a] ", " <0.000005>", 1_700_000_000_000_001_000),
    ],
)
def test_every_prefix_is_read(tmp_path: Path, prefix: str, after: str, first_ns: int) -> None:
    history = read(tmp_path, f"{prefix}{_CALL}{after}")
    assert history.bounds[0] == first_ns
    assert calls(history) == [("openat", 0, 5)]
    assert arguments(history) == {
        "arguments": 'AT_FDCWD, "/a) = 3 <0.5>", O_RDONLY',
        "result": "-1",
        "error": "ENOENT (No such file or directory)",
    }
    assert not history.anomalies


def test_a_thread_is_in_a_call_or_not_and_nothing_else_is_claimed(tmp_path: Path) -> None:
    history = read(
        tmp_path,
        '7 0.000000 execve("/bin/sh", ["sh", "-c", "secret"], ["PATH=/bin"]) = 0 <0.000010>',
        "7 0.000020 futex(0x1, FUTEX_WAIT <unfinished ...>",
        "7 0.000030 <... futex resumed>) = -1 EAGAIN (Resource temporarily unavailable) <0.000025>",
        "7 0.000020 gettid() = 7",
        "7 0.000010 read(3,  <unfinished ...>",
        '7 0.000010 <... read resumed>"x", 9) = 1',
        "7 0.000010 exit_group(0) = ?",
        "7 0.000010 +++ exited with 0 +++",
    )
    assert states(history, "Processes", "7", "Threads", "7") == [
        (0, 10, "process"),
        (10, 20, "not in a call"),
        (20, 45, "futex"),
        (45, 70, "not in a call"),
        # from here to the next line it is not known
        (80, 90, "read"),
        (90, 100, "not in a call"),
        (100, 110, "process"),
    ]
    assert calls(history)[2] == ("gettid", 70, 0)
    assert dict(history.anomalies) == {"call_without_end": 1, "private_field": 2}
    assert "secret" not in str(arguments(history, 0))
    assert arguments(history, 3) == {"arguments": '3, "...", 9', "result": "1"}
    futex = history.state(history.quark("Processes", "7", "Threads", "7", "Status"), 30_000)
    assert futex.tag is not None
    assert history.tags[futex.tag] == {"call": "futex", "error": "EAGAIN"}


def test_processes_and_threads_follow_from_what_made_them(tmp_path: Path) -> None:
    history = read(
        tmp_path,
        '7 1.000000 execve("/bin/make", ["make"], 0x7ffd /* 3 vars */) = 0 <0.000001>',
        "7 0.000001 vfork( <unfinished ...>",
        '8 0.000001 execve("/bin/cc", ["cc"], 0x7ffd /* 3 vars */ <unfinished ...>',
        "7 0.000001 <... vfork resumed>) = 8 <0.000002>",
        "8 0.000001 <... execve resumed>) = 0 <0.000002>",
        "8 0.000001 clone3({flags=CLONE_VM|CLONE_THREAD, stack=0x7f}, 88) = 9 <0.000001>",
        '9 0.000001 prctl(PR_SET_NAME, "worker") = 0 <0.000001>',
        "7 0.000001 kill(8, SIGTERM) = 0 <0.000001>",
        "8 0.000001 --- SIGTERM {si_signo=SIGTERM, si_code=SI_USER, si_pid=7, si_uid=0} ---",
        "9 0.000001 +++ killed by SIGTERM +++",
        "8 0.000001 +++ killed by SIGTERM +++",
        "7 0.000001 wait4(8, NULL, 0, NULL) = 8 <0.000001>",
    )
    paths = {"/".join(history.attributes.path(quark)) for quark in history.spans().thread.tolist()}
    assert paths == {f"Processes/{each}" for each in ("7/Threads/7", "8/Threads/8", "8/Threads/9")}
    named = {
        "/".join(history.attributes.path(quark)): name for quark, name in history.names.items()
    }
    assert named["Processes/7"] == "make"
    assert named["Processes/8"] == "cc"
    assert named["Processes/8/Threads/9"] == "worker"
    flows = history.flows()
    ends = [
        tuple(
            history.attributes.path(int(quark))[3]
            for quark in (flows.from_quark[row], flows.to_quark[row])
        )
        for row in range(len(flows))
    ]
    assert sorted(zip(flows.name.to_list(), ends, strict=True)) == [
        ("exit", ("8", "7")),
        ("new", ("7", "8")),
        ("new", ("8", "9")),
        ("signal", ("7", "8")),
    ]


def test_lines_without_an_id_are_of_the_thread_that_is_alone(tmp_path: Path) -> None:
    history = read(
        tmp_path,
        "100000000.1 clone(child_stack=NULL, flags=SIGCHLDstrace: Process 8 attached",
        " <unfinished ...>",
        "[pid     8] 100000000.2 close(3) = 0 <0.000001>",
        "[pid     7] 100000000.3 <... clone resumed>) = 8 <0.2>",
        "[pid     7] 100000000.4 exit(0) = ?",
        "[pid     7] 100000000.5 +++ exited with 0 +++",
        "100000000.6 close(4) = 0 <0.000001>",
        "what the program printed",
    )
    spans = history.spans()
    found = Counter(history.attributes.path(quark)[-1] for quark in spans.thread.tolist())
    assert found == {"7": 2, "8": 2}
    assert dict(history.anomalies) == {"unknown_line": 1}


def test_times_of_day_may_pass_midnight(tmp_path: Path) -> None:
    history = read(
        tmp_path,
        "7 23:59:59.999999 close(3) = 0 <0.000001>",
        "7 00:00:00.000001 close(4) = 0 <0.000001>",
    )
    assert calls(history) == [("close", 0, 1), ("close", 2, 1)]


def test_calls_of_one_second_follow_each_other(tmp_path: Path) -> None:
    history = read(
        tmp_path, "7 10:00:00 close(3) = 0 <0.000010>", "7 10:00:00 close(4) = 0 <0.000010>"
    )
    assert calls(history) == [("close", 0, 10), ("close", 10, 10)]
    assert "0 decimals" in history.facts["times"]


def test_a_file_of_one_thread_is_named_by_it(tmp_path: Path) -> None:
    history = read(tmp_path, "1.5 close(3) = 0 <0.000001>", name="out.1234")
    assert [history.attributes.path(quark) for quark in history.spans().thread.tolist()] == [
        ("Threads", "1234")
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('execve("/bin/ls", ["ls"], 0x7ffd /* 3 vars */) = 0\n', "have no times: record with"),
        ("% time     seconds  usecs/call     calls    errors syscall\n------ --\n", "table of"),
        ("strace: Process 7 attached\n", "has no calls"),
    ],
)
def test_text_without_times_is_refused_with_what_to_do(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "trace.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        meantime.open(path)


def test_the_table_at_the_end_and_stacks_are_left_out(tmp_path: Path) -> None:
    history = read(
        tmp_path,
        "7 1700000000.000001 close(3) = 0 <0.000001>",
        " > /lib/libc.so.6(__close+0x10) [0x1]",
        "% time     seconds  usecs/call     calls    errors syscall",
        "------ ----------- ----------- --------- --------- ----------------",
        "100.00    0.000001           1         1           close",
    )
    assert len(history.spans()) == 1
    assert dict(history.anomalies) == {"stack_left_out": 1}


@pytest.mark.parametrize("call", ["7 5.5 read(3) = ", "7 5.5 <... read resumed>) = "])
def test_a_result_that_is_cut_is_not_read_from_what_is_behind_it(call: str) -> None:
    begun = "7 5.1 read(3 <unfinished ...>\n"
    found = set()
    for behind in "?x":
        text = memoryview(f"{begun if '<' in call else ''}{call}{behind}".encode())
        scanner = StraceText()
        scanner.scan(text[:-1], last=True)
        found.add((scanner.calls().tobytes(), repr(scanner.counts())))

    assert len(found) == 1
