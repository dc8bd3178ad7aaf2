"""Text of strace: calls of threads as spans and as states, signals, and processes.

All options that give lines a time are read. A call's end is known if strace printed its length
(`-T`) or the line with which it resumed; otherwise none is made up. Between two calls a thread is
`not in a call`: in its own code, or waiting for a CPU, or in a call that strace did not print.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.errors import InputError
from meantime.kernels import strace
from meantime.model.attribute_paths import STATUS, process_path, thread_path
from meantime.model.columns import Interner, distinct
from meantime.model.trace import (
    Arguments,
    Flows,
    LaneDeclaration,
    Points,
    SpanFlag,
    Spans,
    State,
    StateChanges,
)
from meantime.readers.contract import MOST_BATCH_ROWS, lazy_trace
from meantime.readers.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "strace"
TEXT = True

_ADVICE = "record with `strace -f -ttt -T -o trace.txt COMMAND` and open trace.txt"
_TIME = rb"(?:\d\d:\d\d:\d\d(?:\.\d{1,9})?|\d{1,12}(?:\.\d{1,9})?)"
_PID = rb"(?:\[pid +\d{1,9}(?:<[^>\n]{0,40}>)?\] |\d{1,8}(?:<[^>\n]{0,40}>)? +)"
_BODY = (
    rb"(?:(?P<call>[a-z_][a-z_0-9]{0,40})\("
    rb"[^\n]{0,4000}?(?P<end>\) += (?:-?\d|\?)|<unfinished \.\.\.>|$)"
    rb"|<\.\.\. \w{1,40} resumed>"
    rb"|\+\+\+ (?:exited with|killed by|superseded by) [^\n]{1,80} \+\+\+"
    rb"|--- (?:SIG|stopped by )[^\n]{0,300} ---)"
)
_LINE = re.compile(
    rb"^"
    + _PID
    + rb"?(?P<time> *"
    + _TIME
    + rb" +(?:\(\+ *[\d.]+\) +)?)?(?:\[[^\]\n]{1,40}\] ){0,3}"
    + _BODY,
    re.MULTILINE,
)
_SUMMARY = re.compile(rb"\A\s*% time +seconds +usecs/call +calls +errors syscall")
_ATTACHED = re.compile(rb"\Astrace: Process \d+ attached")
_BINARY = re.compile(rb"[\0-\x08\x0e-\x1a]")
_ENOUGH_LINES, _ENOUGH_BYTES = 40, 8192
# A file of `-ff` has the id of its thread as the end of its name.
_OF_THREAD = re.compile(r"\.(\d{1,9})(?:\.(?:gz|xz|zst|bz2))?\Z")
_NOT_IN_A_CALL = "not in a call"
_MICROSECONDS = 6


class _Group(NamedTuple):
    """Calls with one purpose: what their state is called, its colour, and their names."""

    name: str
    color: str
    calls: frozenset[str]


def _group(name: str, color: str, calls: str) -> _Group:
    return _Group(name, color, frozenset(calls.split()))


_OTHER = "other call"
# In the order of the legend.
_GROUPS = (
    _group("read", "#659cd3", "read pread64 readv preadv preadv2 getdents getdents64 readahead"),
    _group(
        "write",
        "#1f5f99",
        "write pwrite64 writev pwritev pwritev2 sendfile copy_file_range splice tee vmsplice"
        " truncate ftruncate fallocate",
    ),
    _group("sync", "#b90005", "fsync fdatasync sync syncfs sync_file_range msync"),
    _group(
        "file",
        "#76bec1",
        "open openat openat2 creat close close_range stat fstat lstat newfstatat fstatat64 stat64"
        " lstat64 fstat64 statx statfs fstatfs access faccessat faccessat2 readlink readlinkat"
        " lseek _llseek rename renameat renameat2 unlink unlinkat mkdir mkdirat rmdir link linkat"
        " symlink symlinkat chmod fchmod fchmodat chown fchown fchownat lchown utimensat chdir"
        " fchdir getcwd dup dup2 dup3 fcntl fcntl64 flock ioctl pipe pipe2 umask mount umount2"
        " inotify_init1 inotify_add_watch memfd_create eventfd2 epoll_create epoll_create1"
        " epoll_ctl getxattr lgetxattr fgetxattr setxattr listxattr fadvise64",
    ),
    _group(
        "network",
        "#124a74",
        "socket socketpair bind connect accept accept4 listen shutdown getsockname getpeername"
        " setsockopt getsockopt send sendto sendmsg sendmmsg recv recvfrom recvmsg recvmmsg",
    ),
    _group(
        "poll",
        "#d9dce3",
        "poll ppoll select pselect6 _newselect epoll_wait epoll_pwait epoll_pwait2 io_getevents"
        " io_uring_enter",
    ),
    _group("futex", "#9952ba", "futex futex_waitv futex_wait futex_wake semop semtimedop"),
    _group(
        "sleep",
        "#b9bfca",
        "nanosleep clock_nanosleep pause rt_sigsuspend sigsuspend rt_sigtimedwait sched_yield",
    ),
    _group("wait for a process", "#f6b324", "wait4 waitpid waitid"),
    _group(
        "memory",
        "#b9a796",
        "mmap mmap2 munmap mprotect mremap madvise brk mlock munlock mincore membarrier"
        " mbind set_mempolicy",
    ),
    _group(
        "process",
        "#e0793c",
        "clone clone2 clone3 fork vfork execve execveat exit exit_group kill tkill tgkill prctl"
        " arch_prctl set_tid_address set_robust_list rseq setpgid setsid prlimit64 getrlimit"
        " setrlimit ptrace",
    ),
    _group(
        "signal",
        "#cc79a7",
        "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending sigaltstack sigaction sigprocmask"
        " sigreturn signalfd signalfd4",
    ),
    _group(_OTHER, "#8a8f99", ""),
)
_OF_CALL = {call: group.name for group in _GROUPS for call in group.calls}
_NOT_IN_A_CALL_COLOR = "#1d8759"


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins like text of strace.

    Text without times, and the table of `-c`, are recognised too, to be rejected with a reason.
    """
    del name
    part = head[:_ENOUGH_BYTES]
    if _BINARY.search(part):
        return False
    if _SUMMARY.match(part) or _ATTACHED.match(part):
        return True
    lines = [line for line in part.split(b"\n") if line.strip()][:_ENOUGH_LINES]
    if len(part) < len(head) and len(lines) > 1:
        lines = lines[:-1]  # it may be cut
    found = [_is_line(line) for line in lines]
    # what the program printed, and stacks, may be among the lines
    return any(found) and (found[0] or 4 * sum(found) >= len(lines))


def _is_line(line: bytes) -> bool:
    """Return whether a line is strace's, rather than any text with a name and a bracket."""
    match = _LINE.match(line)
    if match is None or match["call"] is None:
        return match is not None
    if match["call"].decode() in _OF_CALL:
        return True
    # a call that is not known here
    return match["time"] is not None and bool(match["end"])


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the calls, signals and threads of a text; its first batch comes when all is read.

    A thread is `Processes/PID/Threads/TID` if its process is known: of the parents and the programs
    that the text names; otherwise `Threads/TID`. `keep` is called with a thread's name. A line that
    is not understood is counted, so `lenient` changes nothing.

    Raises:
        InputError: From the batches, if no line has a time, or it is the table of `strace -c`.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    text = strace.StraceText(options.private)
    window = Window(source, progress=options.progress)
    with source:
        head = source.head()[:_ENOUGH_BYTES]
        last = False
        while not last:
            last = not window.more()
            with memoryview(window.block) as view:
                window.start += text.scan(view[window.start : window.end], last)
            trace.text.add(text.text())
    counts = text.counts()
    if not counts["records"]:
        raise InputError(source.name, _reason(head, counts["timeless"]))
    _count(trace, counts, is_truncated=source.truncated)
    if text.decimals < _MICROSECONDS:
        trace.facts["times"] = (
            f"seconds with {text.decimals} decimals: calls of a thread follow each other within one"
        )
    first_ns, last_ns = text.bounds
    trace.bounds = first_ns, last_ns + 1
    if text.mode == strace.OF_DAY:
        trace.facts["date"] = "not recorded: the times are those of a day"
    yield from _Making(trace, text, options, _own_tid(source)).batches()


def _own_tid(source: Source) -> str:
    """Return what to call a thread without an id."""
    found = _OF_THREAD.search(Path(source.path or "").name)
    return found[1] if found else "main"


def _reason(head: bytes, timeless: int) -> str:
    if _SUMMARY.match(head):
        return f"this is the table of `strace -c`, which has no times of calls: {_ADVICE}"
    if timeless:
        return f"the lines of this strace text have no times: {_ADVICE}"
    return "this strace text has no calls"


def _count(trace: Trace, counts: dict[str, int], *, is_truncated: bool) -> None:
    trace.records = counts["records"]
    add = trace.anomalies.add
    add("unknown_line", counts["unknown"])
    add("unread_event", counts["timeless"])
    add("stack_left_out", counts["stacks"])
    add("private_field", counts["private"])
    add("time_out_of_range", counts["out_of_range"])
    add("call_without_end", counts["without_end"])
    add("end_without_begin", counts["resumed_alone"])
    add("unfinished_span", counts["unfinished"])
    add("truncated", int(is_truncated or counts["truncated"] > 0))


def _text_of(name: bytes) -> str:
    return name.decode("utf-8", "replace")


class _Making:
    """Makes batches of what was read."""

    def __init__(
        self, trace: Trace, text: strace.StraceText, options: ReadOptions, own_tid: str
    ) -> None:
        self._trace = trace
        self._calls = text.calls()
        self._events = text.events()
        self._names = [_text_of(name) for name in text.names()]
        self._threads = text.threads()
        self._last_ns = text.bounds[1]
        self._is_coarse = text.decimals < _MICROSECONDS
        self._paths, self._values = trace.paths, Interner(trace.values)
        if options.until_ns is not None:
            self._calls = self._calls[self._calls["begin_ns"] <= options.until_ns]
            self._events = self._events[self._events["time_ns"] <= options.until_ns]
            self._last_ns = min(self._last_ns, options.until_ns)
        self._tid = [
            str(tid) if tid >= 0 else own_tid if number == 0 else f"{own_tid}.{number}"
            for number, tid in enumerate(self._threads[:, 0].tolist())
        ]
        self._process = self._processes()
        called = self._called()
        seen = self._threads[:, 8] != 0
        if options.keep is not None:
            seen &= np.array([options.keep(name) for name in called], np.bool_)
        self._is_kept = seen
        self._entity = np.full(len(seen), -1, np.int32)
        self._status = np.full(len(seen), -1, np.int32)
        self._enter(called)

    def _processes(self) -> list[str | None]:
        """Return the process of each thread; None if it is unknown."""
        columns = self._threads.T.tolist()
        parents, pids, shares, leads = columns[1], columns[2], columns[7], columns[9]
        found: list[str | None] = [None] * len(parents)
        is_done = [False] * len(parents)
        for first in range(len(parents)):
            chain = []
            at = first
            # a thread is of the process of the one that made it
            while at >= 0 and not is_done[at]:
                is_done[at] = True
                chain.append(at)
                at = parents[at] if shares[at] and pids[at] < 0 and not leads[at] else -1
            for thread in reversed(chain):
                if pids[thread] >= 0:
                    found[thread] = str(pids[thread])
                elif shares[thread] and not leads[thread]:
                    found[thread] = found[parents[thread]]
                elif leads[thread] or parents[thread] >= 0:
                    found[thread] = self._tid[thread]
        return found

    def _called(self) -> list[str]:
        """Return the last name of each thread: its program, or what it called itself."""
        events = self._events
        own: dict[int, list[tuple[int, str]]] = {}
        for row in np.flatnonzero(events["kind"] == strace.NAME).tolist():
            name = self._names[events["name"][row]]
            own.setdefault(int(events["thread"][row]), []).append(
                (int(events["time_ns"][row]), name)
            )
        for names in own.values():
            names.sort(key=itemgetter(0))
        columns = self._threads.T.tolist()
        parents, cloned_ns = columns[1], columns[6]
        # what a thread was called when it was made: as its parent then
        first: list[str | None] = [None] * len(parents)
        is_done = [False] * len(parents)
        for number in range(len(parents)):
            chain = []
            at = number
            while at >= 0 and not is_done[at]:
                is_done[at] = True
                chain.append(at)
                at = parents[at]
            for thread in reversed(chain):
                above = parents[thread]
                if above >= 0:
                    names = own.get(above, [])
                    before = bisect_right(names, cloned_ns[thread], key=itemgetter(0))
                    first[thread] = names[before - 1][1] if before else first[above]
        return [
            own[number][-1][1] if number in own else name or self._tid[number]
            for number, name in enumerate(first)
        ]

    def _enter(self, called: list[str]) -> None:
        """Add the paths and names of threads, and their lanes."""
        trace = self._trace
        main: dict[str, int] = {}
        below = set()
        for thread in np.flatnonzero(self._is_kept).tolist():
            tid, pid = self._tid[thread], self._process[thread]
            path = thread_path(tid, pid)
            self._entity[thread] = entity = self._paths.code(path)
            self._status[thread] = status = self._paths.code((*path, STATUS))
            below.add(pid is not None)
            trace.sort_keys[entity] = trace.sort_keys[status] = thread
            if called[thread] != tid:
                trace.names[entity] = trace.names[status] = called[thread]
            if pid is not None and (tid == pid or pid not in main):
                main[pid] = thread
        for pid, thread in main.items():
            process = self._paths.code(process_path(pid))
            trace.sort_keys[process] = thread
            if called[thread] != self._tid[thread]:
                trace.names[process] = called[thread]
            leader = thread
            parent = int(self._threads[leader, 1])
            if parent >= 0 and self._tid[leader] == pid:
                trace.descriptions[process] = (
                    f"started by {called[parent]} ({self._process[parent] or self._tid[parent]})"
                )
        states = [_NOT_IN_A_CALL, *(group.name for group in _GROUPS)]
        colors = [_NOT_IN_A_CALL_COLOR, *(group.color for group in _GROUPS)]
        met = {_OF_CALL.get(self._names[code], _OTHER) for code in distinct(self._calls["name"])}
        legend = tuple(
            State(name, value, color)
            for value, (name, color) in enumerate(zip(states, colors, strict=True))
            if name in met or name == _NOT_IN_A_CALL
        )
        for has_process, above in ((True, "Processes/*/Threads/*"), (False, "Threads/*")):
            if has_process in below:
                trace.lanes.append(
                    LaneDeclaration(f"{above}/Status", entity_kind="Thread", states=legend)
                )
        # the calls of threads in processes have a lane in every history
        if False in below:
            trace.lanes.append(
                LaneDeclaration("Threads/*/Stack", kind="stack", entity_kind="Depth", label="Calls")
            )

    def batches(self) -> Iterator[Batch]:
        """Yield spans, states, points and flows."""
        calls = self._calls
        kept = self._is_kept[calls["thread"]]
        calls = calls[kept] if not kept.all() else calls
        code_of = np.full(len(self._names), -1, np.int32)
        group_of = np.full(len(self._names), -1, np.int32)
        used = distinct(calls["name"]).tolist()
        for name in used:
            code_of[name] = self._values.code(self._names[name])
            group_of[name] = self._group_of(name)
        categories = Interner(self._trace.categories)
        category_of = np.full(len(self._names), -1, np.int32)
        for name in used:
            category_of[name] = categories.code(_OF_CALL.get(self._names[name], _OTHER))
        for first in range(0, len(calls), MOST_BATCH_ROWS):
            rows = calls[first : first + MOST_BATCH_ROWS]
            flags = np.where(rows["flags"] & strace.UNFINISHED, SpanFlag.UNFINISHED, 0)
            yield Spans(
                start_ns=rows["begin_ns"].copy(),
                end_ns=rows["end_ns"].copy(),
                thread=self._entity[rows["thread"]],
                name=code_of[rows["name"]],
                category=category_of[rows["name"]],
                level=np.zeros(len(rows), np.int32),
                flags=flags.astype(np.uint8),
                arguments=Arguments(rows["offset"].copy(), rows["length"].copy()),
            )
        yield from self._states(calls, group_of)
        yield from self._points()
        yield from self._flows()

    def _group_of(self, name: int) -> int:
        return self._values.code(_OF_CALL.get(self._names[name], _OTHER))

    def _tags(self, calls: npt.NDArray[np.void]) -> Int32s:
        """Return the tag of each call: its name, and its error if it failed."""
        pairs = calls["name"].astype(np.int64) << 32 | (calls["error"].astype(np.int64) + 1)
        distinct, which = np.unique(pairs, return_inverse=True)
        first = len(self._trace.tags)
        for pair in distinct.tolist():
            tag = {"call": self._names[pair >> 32]}
            if error := pair & 0xFFFFFFFF:
                tag["error"] = self._names[error - 1]
            self._trace.tags.append(tag)
        codes: Int32s = (which.reshape(-1) + first).astype(np.int32)
        return codes

    def _states(self, calls: npt.NDArray[np.void], group_of: Int32s) -> Iterator[Batch]:
        if not len(calls):
            return
        outside = self._values.code(_NOT_IN_A_CALL)
        order = np.lexsort((calls["begin_ns"], calls["thread"]))
        thread, begin, end = (calls[key][order] for key in ("thread", "begin_ns", "end_ns"))
        known = (calls["flags"][order] & strace.NO_END) == 0
        is_last = np.append(thread[1:] != thread[:-1], True)
        following = np.append(begin[1:], 0)
        # a state ends where the next one begins, as times are rounded
        end = np.where(is_last, end, np.minimum(end, following))
        enters = known & (end > begin)
        none = np.full(len(calls), -1, np.int32)
        leaves = is_last | (following > end)
        exit_ns = self._threads[:, 5][thread]
        final_ns = np.where(exit_ns >= 0, exit_ns, self._threads[:, 4][thread])
        final_ns = np.minimum(np.maximum(final_ns, end), max(self._last_ns, 0) + 1)
        # what a thread did after its last line is not known
        leaves &= ~is_last | (final_ns > end)
        first_ns = self._threads[:, 3][thread]
        is_first = np.append(True, is_last[:-1])
        before = is_first & (first_ns >= 0) & (first_ns < begin)
        parts = [
            (first_ns[before], thread[before], np.full(int(before.sum()), outside), none[before]),
            (begin[enters], thread[enters], group_of[calls["name"][order]][enters],
             self._tags(calls)[order][enters]),
            (end[leaves], thread[leaves], np.where(known, outside, -1)[leaves], none[leaves]),
            (final_ns[is_last], thread[is_last], none[is_last], none[is_last]),
        ]  # fmt: skip
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        in_time = np.argsort(columns[0], kind="stable")
        time_ns, changed, state, tag = (column[in_time] for column in columns)
        for first in range(0, len(time_ns), MOST_BATCH_ROWS):
            part = slice(first, first + MOST_BATCH_ROWS)
            yield StateChanges(
                time_ns[part],
                self._status[changed[part]],
                state[part].astype(np.int32),
                tag[part].astype(np.int32),
            )

    def _points(self) -> Iterator[Batch]:
        """Yield signals and exits."""
        events = self._events
        kind = events["kind"]
        rows = events[(kind == strace.SIGNAL) | (kind == strace.EXIT)]
        rows = rows[self._is_kept[rows["thread"]]]
        for first in range(0, len(rows), MOST_BATCH_ROWS):
            part = rows[first : first + MOST_BATCH_ROWS]
            names = [self._names[name] for name in part["name"].tolist()]
            yield Points(
                time_ns=part["time_ns"].copy(),
                entity=self._entity[part["thread"]],
                name=self._values.codes(names),
                target=np.full(len(part), -1, np.int32),
                arguments=Arguments(part["offset"].copy(), part["length"].copy()),
            )

    def _flows(self) -> Iterator[Batch]:
        """Yield who made which thread, who sent a signal, and whose end was waited for."""
        events = self._events
        threads = self._threads
        found: list[tuple[int, int, int, int, int]] = []
        new, signal, ended = (self._values.code(name) for name in ("new", "signal", "exit"))
        thread_of = {tid: number for number, tid in enumerate(threads[:, 0].tolist()) if tid >= 0}
        pid_of = {
            int(pid): number
            for number, pid in enumerate(self._process)
            if pid is not None and pid.isdecimal() and pid == self._tid[number]
        }
        sent: dict[int, int] = {}
        wanted = np.isin(events["kind"], (strace.CHILD, strace.WAITED, strace.KILL, strace.SIGNAL))
        rows = events[wanted]
        rows = rows[np.argsort(rows["time_ns"], kind="stable")]
        for kind, thread, number, time_ns in zip(
            *(rows[key].tolist() for key in ("kind", "thread", "number", "time_ns")), strict=True
        ):
            if kind == strace.CHILD:
                first_ns = int(threads[number, 3])
                if first_ns >= time_ns or self._is_coarse:
                    found.append((thread, min(time_ns, first_ns), number, first_ns, new))
            elif kind == strace.KILL:
                sent[thread] = time_ns
            elif kind == strace.WAITED:
                child = thread_of.get(number, -1)
                if child >= 0 and (exit_ns := int(threads[child, 5])) >= 0:
                    # strace may print the exit after what waited for it
                    found.append((child, min(exit_ns, time_ns), thread, time_ns, ended))
            else:
                sender = thread_of.get(number, pid_of.get(number, -1))
                if sender in sent and sender != thread:
                    found.append((sender, sent[sender], thread, time_ns, signal))
        kept = [each for each in found if self._is_kept[each[0]] and self._is_kept[each[2]]]
        if not kept:
            return
        columns: list[Int64s] = list(np.array(kept, np.int64).T)
        for first in range(0, len(kept), MOST_BATCH_ROWS):
            part = slice(first, first + MOST_BATCH_ROWS)
            yield Flows(
                self._status[columns[0][part]],
                columns[1][part].copy(),
                self._status[columns[2][part]],
                columns[3][part].copy(),
                columns[4][part].astype(np.int32),
            )
