"""ftrace text: the kernel's `trace` and `trace_pipe`, `trace-cmd report`, systrace and atrace.

All have lines `NAME-TID (TGID) [CPU] FLAGS TIME: EVENT: FIELDS`, in which the process and the flags
may be missing. An event is a sample of its thread, as in `perf script` text, and the states of
threads and CPUs follow from those of the scheduler. What programs write to `trace_marker` as atrace
does becomes spans, counters and points, the entries and exits of `function_graph` spans, and the
calls that the tracer `function` prints are samples whose stacks are the function and its caller.

The text may be inside a page of systrace, as a literal of JavaScript or in an element, and the
whole may be compressed as `atrace -z` does.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.errors import InputError
from meantime.kernels import perf
from meantime.model.attribute_paths import thread_path
from meantime.model.trace import Trace
from meantime.readers.marks import ClockSync, clock_of, marks_of
from meantime.readers.perf import Reading, has_ids, text_of
from meantime.readers.source import HEAD_BYTES, Source
from meantime.readers.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.attributes import Path as AttributePath
    from meantime.model.clocks import Clock
    from meantime.model.trace import Batch
    from meantime.readers.contract import ReadOptions
    from meantime.readers.switches import Records

__all__ = ["FORMAT", "FtraceReading", "read", "recognises"]

FORMAT = "ftrace"
TEXT = True

# Every repetition has a limit, as a line of a hostile file may be as long as the file.
_LINE = re.compile(
    rb"(?P<comm>\S.{0,80})-\d{1,10}[ \t]{1,40}"
    rb"(?:(?:\([ \d-]{1,20}\)[ \t]{1,40})?\[\d{3,9}\][ \t]{1,40}(?:[^\s:]{1,12}[ \t]{1,40})?"
    rb"|\d{1,9}[^\s\d:][^\s:]{3,11}[ \t]{1,40})"
    rb"\d{1,20}\.\d{6}(?:\d{3})?:[ \t]{1,40}(?:\(\+\d{1,20}\)[ \t]{1,40})?"
    rb"(?:[^\s:]+:(?:[ \t].*)?|\S+ <-.*|sys_\w+(?:\(| -> ).*)"
)
_TRACER = re.compile(rb"^# tracer: *(\S+)", re.MULTILINE)
_ENTRIES = re.compile(rb"^# entries-in-buffer/entries-written: *(\d+)/(\d+)", re.MULTILINE)
_CPUS = re.compile(rb"^cpus=\d+\s*$", re.MULTILINE)
_CLOCK = re.compile(rb"^# (?:trace_)?clock: *(\w+)", re.MULTILINE)
_CHOSEN_CLOCK = re.compile(r"\[([\w-]+)\]")
_IDS = re.compile(rb"-(\d+)")
_TICKS = re.compile(rb"^[^#\n]{0,100}-\d{1,10} .{0,60}\[\d{3,9}\] .{0,60}?\d{6,20}: ", re.MULTILINE)
_TRACERS = {b"nop", b"function", b"function_graph"}
# Of the lines that are looked at, those that must be events: others are stacks.
_LEAST = 0.1
_ENOUGH_LINES = 60
# A page of systrace begins with its program; the text comes after some hundred kB.
_PAGE = re.compile(rb"<title>(?:Android System Trace|Systrace)|class=\"trace-data\"|linuxPerfData")
_COMPRESSED = re.compile(rb"(?:[^\n\0]*\n){0,3}TRACE:\r?\n(?=x[\x01\x5e\x9c\xda])")
# Text compresses to a tenth; more than this is a zip bomb, and a ring of atrace is some 100 MB.
_MOST_EXPANDED = 300
_MOST_TEXT_BYTES = 1 << 30


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins like ftrace text, or like a page of systrace.

    Text of a tracer that is not read is recognised too, to be rejected with a reason.
    """
    del name
    if _TRACER.search(head) or _COMPRESSED.match(head):
        return True
    if head.lstrip().startswith(b"<") and _PAGE.search(head):
        return True
    if b"\0" in head[:4096] or b"# captured on" in head[:4096]:
        return False
    lines = [line.rstrip() for line in head.split(b"\n") if line.strip()][:_ENOUGH_LINES]
    matches = (_LINE.fullmatch(line.lstrip(b" ")) for line in lines)
    # JSON and tables have such a line in quotation marks, which no thread has in its name
    found = sum(match is not None and b'"' not in match["comm"] for match in matches)
    # perf separates the name of a thread and its id by blanks
    of_perf = sum(has_ids(line) for line in lines)
    return (found > of_perf and found >= _LEAST * len(lines)) or (
        head.startswith(b"cpus=") and not of_perf
    )


def read(
    source: Source, options: ReadOptions, *, stacks: bool = True, switches: bool = True
) -> Trace:
    """Return the events of ftrace text, and the states and spans that follow from them.

    Times count from the zero of the tracer's clock. A thread is `Threads/TID`; `keep` is called
    with its name. `stacks` are those of the tracer `function`; with `switches` the states and spans
    are derived. A line that is not understood is counted, so `lenient` changes nothing.

    Raises:
        InputError: From the batches, if the tracer is another one, the times are not seconds, or
            the text has no events.
    """
    trace = Trace(source.name, FORMAT, iter(()))
    window = Window(source, progress=options.progress)
    source.is_text &= _COMPRESSED.match(source.head()) is None
    reading = FtraceReading(trace, window, options)
    trace.batches = reading.batches(with_stacks=stacks, with_switches=switches)
    return trace


class FtraceReading(Reading):
    """Reads one text of ftrace into a trace."""

    called = "ftrace text"
    items = "events"
    _overwritten = 0
    # whether the text is of the buffers of all CPUs, as trace-cmd and the kernel's `trace` print it
    _is_whole = False

    def layout(self) -> int:
        """Find the text in what may be a page, and return its layout.

        Raises:
            InputError: If the tracer is not read, or the times are not seconds.
        """
        window = self.window
        while window.more():
            if window.offset(0) == 0 and (found := _COMPRESSED.match(window.block)):
                self.window: Window
                self.window = window = self._unpacked(found.end())
                continue
            head = bytes(window.block[window.start : window.end])
            if b"# tracer:" in head or _LINE.search(head):
                break
        else:
            head = bytes(window.block[window.start : window.end])
        # lines that begin so are sought only where there are any: it takes a tenth of the time
        if b"# tracer:" in head and (found := _TRACER.search(head)):
            tracer = found[1].removesuffix(b"\\n\\")
            if tracer not in _TRACERS:
                raise InputError(
                    window.source.name,
                    f"text of the tracer {text_of(tracer)} is not read: those of function,"
                    " function_graph and of events (nop) are",
                )
            window.start += found.start()
            head = head[found.start() :]
        if not _LINE.search(head):
            self._refuse(head)
        head = head[:HEAD_BYTES]
        found = _ENTRIES.search(head) if b"# entries-in-buffer" in head else None
        if found:
            self._overwritten = max(0, int(found[2]) - int(found[1]))
        has_cpus = b"cpus=" in head and _CPUS.search(head) is not None
        self._is_whole = found is not None or has_cpus
        self.trace.clock = self._clock(head)
        return perf.FTRACE

    def _unpacked(self, begin: int) -> Window:
        """Return the text that follows an offset compressed.

        Raises:
            InputError: If it is damaged, or expands to more than text does.
        """
        import io  # noqa: PLC0415 - for this form only, and so is the next
        import zlib  # noqa: PLC0415

        window = self.window
        while window.more():
            pass
        packed = bytes(memoryview(window.block)[begin : window.end])
        name = window.source.name
        try:
            stream = zlib.decompressobj()
            most = min(_MOST_EXPANDED * len(packed), _MOST_TEXT_BYTES)
            text = stream.decompress(packed, most + 1)
        except zlib.error as error:
            raise InputError(name, f"the compressed text of atrace is damaged: {error}") from None
        if len(text) > most:
            raise InputError(name, "the compressed text of atrace expands more than text can")
        self.trace.anomalies.add("truncated", int(not stream.eof))
        window.source.close()
        return Window(Source(name, io.BytesIO(text)))

    def _refuse(self, head: bytes) -> None:
        """Say why no line can be read, if that is known.

        Raises:
            InputError: If it is known.
        """
        name = self.window.source.name
        if b"FUNCTION CALLS" in head:
            raise InputError(
                name,
                "the lines of function_graph have no times and threads: record with `trace-cmd"
                " record -p function_graph` and print it with `trace-cmd report`",
            )
        if _TICKS.search(head):
            raise InputError(
                name, "the times are not seconds: record with `echo mono > trace_clock`"
            )

    def _clock(self, head: bytes) -> Clock:
        """Return the clock that the text, or the tracer's directory beside it, names."""
        found = _CLOCK.search(head) if b"clock:" in head else None
        named = found[1].decode() if found else None
        path = self.window.source.path
        if named is None and path is not None and Path(path).name.startswith("trace"):
            try:
                text = (Path(path).parent / "trace_clock").read_text("utf-8")
            except (OSError, ValueError):
                text = ""
            named = chosen[1] if (chosen := _CHOSEN_CLOCK.search(text)) else None
        if named is not None:
            self.trace.facts["trace_clock"] = named
        return clock_of(named)

    def read_range(self, text: perf.PerfText) -> tuple[int | None, int | None]:
        """Return from when and until when the text has all events of each CPU, if that is known."""
        if not self._is_whole or self.trace.bounds is None:
            return None, None
        begin_ns, end_ns = self.trace.bounds
        return None if self._overwritten or text.lost else begin_ns, end_ns

    def path_of(self, name: str, ids: bytes | None) -> AttributePath:
        """Return a thread's path from what follows its name."""
        found = _IDS.match(ids or b"")
        return thread_path(name if found is None else found[1].decode())

    def event_name(self, text: bytes) -> str:
        """Return the name of an event; old kernels print 0 for a mark."""
        return "tracing_mark_write" if text == b"0" else text_of(text)

    def is_event(self, name: str) -> bool:
        """Return whether an event has fields: all but the samples of the tracer `function`."""
        return name != "function"

    def ended(self, text: perf.PerfText) -> None:
        """Add the stretches in which events were lost."""
        trace = self.trace
        trace.anomalies.add("overwritten_events", self._overwritten)
        if self._overwritten and trace.bounds is not None and len(firsts := text.first_times()):
            # a buffer that was overwritten begins later than the others
            trace.lost.append((trace.bounds[0], max(int(firsts.max()), trace.bounds[0] + 1)))

    def derived(self, found: Records) -> Iterator[Batch]:
        """Yield what follows, and what programs wrote to `trace_marker`."""
        yield from super().derived(found)
        sync = ClockSync()
        yield from marks_of(self.trace, found, sync, self.kept)
        self.trace.clock = sync.applied_to(self.trace.clock)
