"""CTF traces: directories that LTTng, perf and barectf write.

Packets of CTF 1.8 are decoded here; what has another form, the program babeltrace2 reads. Either
way the events become ftrace text, from which `ftrace` and all that follows are the same: states of
threads and CPUs, wake-ups, system calls, interrupts. The entries and exits of functions that
`lttng-ust-cyg-profile` instruments are spans. Any other event is a sample of its thread, or has its
fields in `Events`. A trace is a directory with a file `metadata`, or with such directories below.

The events become text so that one scanner decides what the events of the kernel mean. `tsdl`
parses the metadata, and `program` makes a program of them: rows of numbers, one for each part of a
packet or event. The kernel `ctf_packets` checks every number of the program, then decodes packets,
merges their streams in order of time and writes the text; each read is compared with the content
that is left. `packets` finds the packets in the files, and what was lost between them.
`babeltrace` runs the other program, whose lines another kernel reads; both kernels share
`ctf_event.h`, so that an event becomes the same text either way.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from meantime.errors import InputError
from meantime.kernels import perf
from meantime.model.clocks import Clock
from meantime.model.trace import Trace
from meantime.readers.ctf import babeltrace
from meantime.readers.ctf.packets import PacketText
from meantime.readers.ctf.tsdl import UnsupportedError
from meantime.readers.ctf_metadata import MAGIC_2, metadata_heads
from meantime.readers.ftrace import FtraceReading
from meantime.readers.source import Source
from meantime.readers.window import Window

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.model.anomalies import Anomalies
    from meantime.model.clocks import Kind
    from meantime.readers.contract import ReadOptions

__all__ = ["FORMAT", "read", "read_text"]

FORMAT = "ctf"

_KERNEL = re.compile(rb'kernel_release = "(\d+)\.(\d+)')
_HOST = re.compile(rb'hostname = "([^"\n]{1,255})"')
_OLD_KERNEL = (4, 14)
_MOST_HOSTS = 5
_FIRST_TIME = re.compile(rb"\] (?:\?\.\.\. )?(\d+)\.\d{9}: ")
_MOST_LOST = 1 << 50  # a larger number is that of a counter that went back
_EPOCH_S = 10**9  # a clock that shows more than 31 years counts from 1970


class _Counts(Protocol):
    """What was left out of the text."""

    @property
    def unread_lines(self) -> int: ...
    @property
    def dropped_fields(self) -> int: ...


class EventText(Protocol):
    """Events as ftrace text, read like a file; `lost` and `anomalies` are complete at the end."""

    name: str
    lost: list[tuple[int, int, int]]
    read_ns: tuple[int | None, int | None]
    anomalies: Anomalies

    @property
    def rewriting(self) -> _Counts: ...
    def readinto(self, buffer: memoryview, /) -> int: ...
    def close(self) -> None: ...


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace in a directory. With `options.lenient` damaged packets are skipped.

    Raises:
        InputError: If the directory has traces of several hosts; if a packet is damaged, which may
            come from the batches; or if its form is one that babeltrace2 reads, and that is not
            installed, too old, or refuses the trace.
    """
    found = list(metadata_heads(path))
    heads = [head for _, head in found]
    kernels = [(int(each[1]), int(each[2])) for head in heads if (each := _KERNEL.search(head))]
    hosts = {each[1].decode("utf-8", "replace") for head in heads if (each := _HOST.search(head))}
    if len(hosts) > 1:
        # CPUs and threads of one number would be taken for one
        names = ", ".join(sorted(hosts)[:_MOST_HOSTS])
        raise InputError(
            str(path), f"this has traces of {len(hosts)} hosts ({names}): open each directory"
        )
    host = hosts.pop() if hosts else None
    is_old = bool(kernels) and max(kernels) < _OLD_KERNEL
    is_ctf_2 = any(head.startswith(MAGIC_2) for head in heads)
    reason = "this is a CTF 2 trace"
    text: EventText | None = None
    if not is_ctf_2:
        try:
            folders = [folder for folder, _ in found]
            text = PacketText(str(path), folders, is_old=is_old, is_lenient=options.lenient)
        except UnsupportedError as error:
            reason = str(error)
    if text is None:
        text = babeltrace.run(path, is_old=is_old, is_ctf_2=is_ctf_2, reason=reason)
    return read_text(text, options, host=host)


def read_text(running: EventText, options: ReadOptions, *, host: str | None = None) -> Trace:
    """Return the trace of events that are ftrace text.

    Args:
        running: The text.
        options: The options of the reader.
        host: The host that was traced, if known.
    """
    try:
        source = Source(running.name, running)
    except BaseException:
        running.close()
        raise
    trace = Trace(source.name, FORMAT, iter(()))
    reading = _CtfReading(trace, Window(source, progress=options.progress), options)
    reading.running, reading.host = running, host
    trace.batches = reading.batches(with_stacks=True, with_switches=True)
    trace.input = source
    return trace


class _CtfReading(FtraceReading):
    """Reads the text of events."""

    called = "CTF trace"
    running: EventText
    host: str | None

    def layout(self) -> int:
        """Return the layout that the text is rewritten in."""
        window = self.window
        while not window.end and window.more():
            pass
        head = bytes(window.block[window.start : window.end])
        found = _FIRST_TIME.search(head)
        is_utc = found is not None and int(found[1]) > _EPOCH_S
        kind: Kind = "realtime" if is_utc else "monotonic"
        self.trace.clock = Clock(kind, host=self.host, utc_at_origin_ns=0 if is_utc else None)
        return perf.FTRACE

    def read_range(self, text: perf.PerfText) -> tuple[int | None, int | None]:  # noqa: ARG002
        """Return from when and until when the packets of all CPUs have all events."""
        return self.running.read_ns

    def ended(self, text: perf.PerfText) -> None:  # noqa: ARG002 - the base class uses it
        """Add the stretches in which events were lost."""
        trace, rewriting = self.trace, self.running.rewriting
        trace.anomalies.add("unknown_line", rewriting.unread_lines)
        trace.anomalies.add("unread_fields", rewriting.dropped_fields)
        lost = self.running.lost
        counts = (count if count <= _MOST_LOST else 1 for _, _, count in lost)
        trace.anomalies.add("lost_events", sum(counts))
        trace.anomalies.update(self.running.anomalies)
        trace.lost.extend((begin, max(end, begin + 1)) for begin, end, _ in lost)
