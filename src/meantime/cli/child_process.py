"""Runs a command as the shell would: with its descriptors, signals and job control."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from meantime.errors import CommandNotFoundError, CommandNotRunError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["leave", "run"]

# not passed on: signals that a process causes itself, and those that cannot be handled
_OWN = {
    *(signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGABRT, signal.SIGPIPE),
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS),
    *(signal.SIGXCPU, signal.SIGXFSZ, signal.SIGVTALRM, signal.SIGPROF),
}
# Python ignores these two while it starts, whatever they were before, and keeps no record of that.
# Nor does the kernel, and the parent's own dispositions in /proc do not show it: a Python parent
# ignores both itself and gives its children the default, `env --ignore-signal` execs us in its
# place. So the command gets the default, which is what nearly every caller has.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
# Stop signals that can be handled. The kernel discards a pending SIGCONT when one of them is sent,
# and pending ones of them when SIGCONT is.
_STOPS = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
# Signals to a group reach its members one after another, so the witness may get one later than we.
_WITNESS_WAITS_S = 0.02
_MOST_DESCRIPTORS = 65_536


def run(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command to its end and return its status; a signal's is negative.

    The command inherits our descriptors, ignored signals, process group and terminal. Signals that
    are sent to this process alone are passed on to it. Those that are sent to the whole process
    group, as by the terminal and by `timeout`, have reached it already. When it stops, we stop.

    SIGPIPE and SIGXFSZ are the exception: they have their default action, even where our caller
    ignored them.

    Raises:
        CommandNotFoundError: If it is not there.
        CommandNotRunError: If it cannot be executed.
    """
    assert sys.platform != "win32"
    inherited = _inherited()
    ignored = {number for number in signal.valid_signals() if _is_ignored(number)}
    if signal.SIGCHLD in ignored:
        # while it is ignored, the kernel discards the status of children that end
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    watched: set[int] = {*signal.valid_signals() - _OWN - ignored}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched | {signal.SIGCHLD})
    witness = None
    try:
        witness = _Witness(inherited)
        try:
            child = os.posix_spawnp(
                words[0], list(words), environment, setsigmask=before, setsigdef=_IGNORED_BY_PYTHON
            )
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            kind = CommandNotFoundError if missing else CommandNotRunError
            raise kind(f"{words[0]}: {error.strerror}") from error
        _close(inherited)
        return _wait(child, watched, witness)
    finally:
        if witness is not None:
            witness.end()
        # discard what came after the command's end: unblocked, it would end us
        while signal.sigtimedwait(watched, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave(status: int) -> NoReturn:
    """End with a command's status, by the same signal if it was one."""
    if status < 0:
        import resource  # noqa: PLC0415 - a command seldom dies of a signal

        # to end as the command did, but leave no second core file
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stdout.flush()
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {-status})
        os.kill(os.getpid(), -status)
    sys.exit(status)


def _is_ignored(number: int) -> bool:
    # of these two it is unknown whether they were ignored before Python started
    return number not in _IGNORED_BY_PYTHON and signal.getsignal(number) == signal.SIG_IGN


def _inherited() -> list[int]:
    """Return the descriptors that we inherited, without the standard ones."""
    numbers: Iterable[int]
    try:
        numbers = map(int, os.listdir("/proc/self/fd"))  # noqa: PTH208 - names, not paths
    except OSError:
        # as in a bare chroot: all that may be open are tried
        numbers = range(min(os.sysconf("SC_OPEN_MAX"), _MOST_DESCRIPTORS))
    found = []
    for number in numbers:
        with suppress(OSError):
            if number > 2 and os.get_inheritable(number):
                found.append(number)
    return found


def _close(descriptors: Sequence[int]) -> None:
    # a reader of a pipe sees its end only once all copies of the other end are closed
    for descriptor in descriptors:
        os.close(descriptor)


def _wait(child: int, watched: set[int], witness: _Witness) -> int:
    while True:
        pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
        if pid and os.WIFSTOPPED(status):
            _stop(os.WSTOPSIG(status), watched)
        elif pid:
            return os.waitstatus_to_exitcode(status)
        else:
            # blocked since before the command began, so none is missed
            info = signal.sigwaitinfo(watched | {signal.SIGCHLD})
            if info.si_signo != signal.SIGCHLD and not witness.has_seen(info.si_signo):
                _pass_on(info.si_signo, child)


def _pass_on(number: int, child: int) -> None:
    # If both were sent to the group, the second has discarded the witness's copy of the first, so
    # it could not confirm the first: do not pass it on. The second one is still pending here.
    pending = signal.sigpending()
    if (number == signal.SIGCONT and pending & _STOPS) or (
        number in _STOPS and signal.SIGCONT in pending
    ):
        return
    # a command that changed its user cannot be sent signals
    with suppress(PermissionError):
        os.kill(child, number)


def _stop(number: int, watched: set[int]) -> None:
    """Stop this process as the command was stopped, until it is continued."""
    if number == signal.SIGSTOP:
        os.kill(os.getpid(), number)
        return
    # sent while blocked, so that the stop happens exactly where the signal is unblocked
    handler = signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    # the process is stopped here, and continues with the next line after SIGCONT
    if number in watched:
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    signal.signal(number, handler)


class _Witness:
    """An idle process of our group: if it also receives a signal, the whole group did.

    Nothing else shows whether a signal that we receive has also reached the command.

    Args:
        inherited: Descriptors that it must close.
    """

    def __init__(self, inherited: Sequence[int]) -> None:
        questions, self._ask = os.pipe()
        self._answers, answer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _close([*inherited, self._ask, self._answers])
                _testify(questions, answer)
            finally:
                os._exit(0)
        _close([questions, answer])

    def has_seen(self, number: int) -> bool:
        """Return whether a signal that we have received was sent to the whole group."""
        try:
            os.write(self._ask, bytes([number]))
            seen = os.read(self._answers, 1) == b"y"
        except BrokenPipeError:
            # it was killed
            return False
        if seen:
            # `timeout` sends a signal to us and to the group, but means it once
            signal.sigtimedwait({number}, 0)
        return seen

    def end(self) -> None:
        """Let the process end."""
        _close([self._ask, self._answers])
        os.waitpid(self._pid, 0)


def _testify(questions: int, answers: int) -> None:
    # a reader of our standard output must not wait for the witness
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while question := os.read(questions, 1):
        seen = signal.sigtimedwait(set(question), _WITNESS_WAITS_S)
        os.write(answers, b"n" if seen is None else b"y")
