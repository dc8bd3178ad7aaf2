"""Text of the program babeltrace2, which reads every form of CTF."""

from __future__ import annotations

import re
import subprocess
import time
from shutil import which
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, cast

from meantime.errors import InputError
from meantime.kernels.ctf import CtfText
from meantime.model.anomalies import Anomalies
from meantime.system_calls import enlarge_pipe

if TYPE_CHECKING:
    from io import BufferedIOBase, RawIOBase
    from pathlib import Path

__all__ = ["BabeltraceText", "run"]

_PROGRAM = "babeltrace2"
_BLOCK_BYTES = 1 << 19
_PIPE_BYTES = 1 << 20
# The program writes 4 KiB at a time. Waking for each of them costs both processes more than the
# text; while this process sleeps, some hundred kB come.
_SHORT_BYTES = 1 << 16
_WAIT_S = 0.002
_EXPANDED = 4  # a line becomes at most this many times as long, and _MORE_BYTES
_MORE_BYTES = 512
_MOST_LINE_BYTES = 1 << 24
_MOST_REASON = 300
_VERSION = re.compile(r"(\d+)\.(\d+)")
_READS_CTF_2 = (2, 1)
_LOST = re.compile(
    rb"Tracer (?:may have )?(discarded|lost)(?: (\d+))? (?:event|packet)\S* between"
    rb" \[(?:[\d:]*?)(\d+)\.(\d{9})\] and \[(?:[\d:]*?)(\d+)\.(\d{9})\]"
)


def run(path: Path, *, is_old: bool, is_ctf_2: bool, reason: str) -> BabeltraceText:
    """Start the program on a directory, and return its text.

    Args:
        path: The directory.
        is_old: Whether the kernel is older than 4.14.
        is_ctf_2: Whether a trace in it is of CTF 2.
        reason: Why the program is needed.

    Raises:
        InputError: If it is not installed, or too old.
    """
    program = which(_PROGRAM)
    if program is None:
        raise InputError(
            str(path),
            f"{reason}, which the program {_PROGRAM} may read: install it, for example with"
            " `apt install babeltrace2` or `dnf install babeltrace2`",
        )
    if is_ctf_2 and _version(program) < _READS_CTF_2:
        raise InputError(
            str(path),
            f"this is a CTF 2 trace: {_PROGRAM} 2.1 or later reads it, and {program} is"
            f" {'.'.join(map(str, _version(program)))}",
        )
    return _Babeltrace(program, path, is_old=is_old)


def _version(program: str) -> tuple[int, int]:
    done = subprocess.run(  # noqa: S603 - the program that was found
        [program, "--version"], capture_output=True, text=True, check=False
    )
    found = _VERSION.search(done.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


class BabeltraceText:
    """The text of babeltrace2 as ftrace text, read like a file.

    Args:
        name: The name of the trace, for messages.
        text: What babeltrace2 prints.
        is_old: Whether the kernel is older than 4.14.

    Attributes:
        rewriting: What rewrites the text.
        anomalies: What else is wrong: nothing that the program prints.
        lost: Stretches without events: from_ns, to_ns, how many events; complete at the end.
        read_ns: Not known.
    """

    def __init__(self, name: str, text: RawIOBase | BufferedIOBase, *, is_old: bool) -> None:
        self.name = name
        self.rewriting: CtfText = CtfText(is_old)
        self.anomalies: Anomalies = Anomalies()
        self.lost: list[tuple[int, int, int]] = []
        self.read_ns: tuple[int | None, int | None] = (None, None)
        self._text = text
        self._read = bytearray(_BLOCK_BYTES)
        self._start = self._end = 0  # of what was read, and is still to be rewritten
        self._ended = False
        self._ready = memoryview(b"")

    def readinto(self, buffer: memoryview, /) -> int:
        """Read the next bytes; 0 at the end.

        Raises:
            InputError: If a line is longer than 16 MiB, or babeltrace2 fails.
        """
        while not len(self._ready):
            # mostly straight to where it is needed
            if written := self._rewrite(self._end, buffer):
                return written
            line_end = self._read.find(b"\n", self._start, self._end) + 1
            if line_end:
                # what the line may become is longer than the buffer
                needed = _EXPANDED * (line_end - self._start) + _MORE_BYTES
                line = memoryview(bytearray(needed))
                self._ready = line[: self._rewrite(line_end, line)]
            elif not self._fill():
                return 0
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        """Close the text."""
        self._text.close()

    def more(self, room: memoryview) -> int:
        """Read more text; 0 at its end."""
        return self._text.readinto(room) or 0

    def finish(self) -> None:
        """Check how the text ended."""

    def _rewrite(self, end: int, target: memoryview) -> int:
        """Rewrite complete lines of the text up to `end`; return how many bytes they became."""
        with memoryview(self._read) as read:
            used, written = self.rewriting.rewrite(read[self._start : end], target)
        self._start += used
        return written

    def _fill(self) -> bool:
        """Read more text after the line that is not complete; return False at the end."""
        if self._ended:
            return False
        rest = self._read[self._start : self._end]
        if len(rest) > _MOST_LINE_BYTES:
            raise InputError(self.name, "an event is longer than 16 MiB")
        if 2 * len(rest) > len(self._read):
            self._read = bytearray(2 * len(self._read))
        self._read[: len(rest)] = rest
        self._start, self._end = 0, len(rest)
        with memoryview(self._read) as read:
            while not self._ended and self._end - len(rest) < len(read) // 4:
                count = self.more(read[self._end :])
                self._end += count
                self._ended = not count
        if self._ended:
            self.finish()
            if self._end:
                self._read[self._end] = ord("\n")
                self._end += 1
        return self._end > 0


class _Babeltrace(BabeltraceText):
    """A running babeltrace2."""

    def __init__(self, program: str, path: Path, *, is_old: bool) -> None:
        self._messages = TemporaryFile()  # noqa: SIM115 - closed with the program
        words = [
            program,
            "--clock-seconds",
            "--no-delta",
            "--fields=loglevel",
            str(path.absolute()),
        ]
        self._process = subprocess.Popen(  # noqa: S603 - no shell reads the path
            words,
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._messages,
        )
        text = self._process.stdout
        assert text is not None
        enlarge_pipe(text.fileno(), _PIPE_BYTES)
        super().__init__(str(path), cast("RawIOBase", text), is_old=is_old)
        self._was_short = False

    def more(self, room: memoryview) -> int:
        """Read more text, in large parts; 0 at its end."""
        if self._was_short:
            time.sleep(_WAIT_S)
        count = super().more(room)
        self._was_short = count < _SHORT_BYTES
        return count

    def finish(self) -> None:
        """Wait for the program, and read its messages.

        Raises:
            InputError: If it failed.
        """
        status = self._process.wait()
        self._messages.seek(0)
        text = self._messages.read(1 << 20)
        for found in _LOST.finditer(text):
            begin, end = (int(found[at]) * 10**9 + int(found[at + 1]) for at in (3, 5))
            self.lost.append((begin, end, int(found[2] or 1)))
        if status:
            raise InputError(self.name, f"{_PROGRAM} cannot read it: {_reason(text, status)}")

    def close(self) -> None:
        """End the program if it runs."""
        if self._process.poll() is None:
            self._process.kill()
        super().close()
        self._process.wait()
        self._messages.close()


def _reason(messages: bytes, status: int) -> str:
    """Return the sentence of the first cause: what is after the last heading, up to its details."""
    text = messages.decode("utf-8", "replace")
    _, found, cause = text.rpartition("CAUSED BY ")
    lines = (cause if found else text).splitlines()[1 if found else 0 :]
    sentence = " ".join(line.strip() for line in lines if line.strip())
    return sentence.partition(": ")[0].rstrip(":")[:_MOST_REASON] or f"exit status {status}"
