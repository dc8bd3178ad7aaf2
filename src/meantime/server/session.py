"""The files of a viewer: read in threads while pages already look at them."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from meantime.errors import InputError, MeantimeError
from meantime.history.directory import is_history, is_joined, is_stored_history
from meantime.history.joined import placed
from meantime.model.anomalies import CATALOGUE
from meantime.model.input_path import InputPath
from meantime.opening.history_from_path import open_history
from meantime.query.aligning import Clocked, align_all
from meantime.query.aligning_histories import align_histories
from meantime.server.core_range import core_range
from meantime.server.lanes import LaneTree
from meantime.stores import is_url, store_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history import History, HistoryBuilder
    from meantime.model.clocks import Clock
    from meantime.model.zones import Zone
    from meantime.query.aligning import Alignment
    from meantime.server.core_range import CoreRange
    from meantime.server.side_by_side import SideBySide
    from meantime.server.tour import Tour

__all__ = ["OpenFile", "Session", "Shown"]

_MOST_DAMAGE = 3
_MOST_LOST = 10_000
# The anomalies of a recording whose times, when its sampler did not run, are lost ranges; and those
# whose ranges have no events.
_SAMPLES_LOST = "samples_skipped"
_EVENTS_LOST = {"records_lost", "records_rotated", "segment_damaged"}
# How often a file that was read is looked at: it may be gone.
_WATCH_S = 2.0
# How often a file that is followed is looked at, and how much of the time may go into reading it.
_LOOK_S = 1.0
_READING_SHARE = 0.5
# A snapshot of a history that grows is taken so often, and takes at most this part of the time.
_SNAPSHOT_S = 0.5
_SNAPSHOT_SHARE = 0.1


class _StoppedError(Exception):
    """The session was closed while a file was read."""


class Shown(NamedTuple):
    """What pages see of a file at one moment.

    Attributes:
        tree: The lanes.
        layout: Increases when lanes are numbered differently.
        moment: Increases with each of them.
    """

    tree: LaneTree
    layout: int
    moment: int

    @property
    def version(self) -> int:
        """Increases when anything changes, as when damage is found that nobody had read before."""
        return self.moment + len(self.tree.history.damage)


class OpenFile:
    """A file of a session, and what has been read of it.

    Args:
        index: Its number.
        source: Its path, or a history.
        given_ns: What to add to its times, if that is given.
        read: The history that was read from the path, if it was.

    Attributes:
        index: Its number.
        path: Where it is; empty for a history in memory.
        options: The options with which a command reads it as it is shown, a word each.
        name: What it is called.
        given_ns: What to add to its times, if that was given.
        found: How its times become those of the first file, if messages between files say so.
        shown: What pages see of it; None as long as that is nothing.
    """

    def __init__(
        self,
        index: int,
        source: str | os.PathLike[str] | History,
        *,
        given_ns: int | None = None,
        read: History | None = None,
    ) -> None:
        self.index = index
        self.given_ns = given_ns
        self.found: Alignment | None = None
        self._clock: Clock | None = None
        self._read: History | None = None
        self.path: str = ""
        self.options: list[str] = []
        self._history = read
        self._source = source = store_url(source)
        if isinstance(source, str | os.PathLike):
            self.path = os.fspath(source)
            self.options = source.options if isinstance(source, InputPath) else []
            self.name: str = "standard input" if self.path == "-" else Path(self.path).name
            if not (self.path == "-" or is_url(self.path) or Path(self.path).exists()):
                raise InputError(self.path, "there is no such file")
        else:
            self._history = source
            self.name = source.title or "history"
        self.status: str = "reading"
        self.error: str | None = None
        self.read_bytes = self.total_bytes = 0
        self.shown: Shown | None = None
        self._core: CoreRange | None = None
        self._stopped = threading.Event()
        # what it was when it was read, unless that cannot change, and since then
        self._signature: object = None
        self._changed: str | None = None
        self._next_look_s = 0.0

    def read(self, *, follow: bool, prepare: bool = False) -> None:
        """Read the file, and with `follow` what is added to it, until `stop` is called.

        Args:
            follow: As above.
            prepare: Whether to also make what a page asks for first.
        """
        before = _signature(self.path)
        began = time.monotonic()
        try:
            history = self._opened()
            self._show(history)
        except _StoppedError:
            return
        except (MeantimeError, OSError, MemoryError) as error:
            self.status, self.error = "failed", _sentence(error)
            return
        except Exception as error:
            # a defect of meantime: the page says so, and the traceback is printed
            self.status, self.error = "failed", f"{type(error).__name__}: {_sentence(error)}"
            raise
        if not follow or not self.path or self.path == "-":
            if history.built:
                with suppress(MeantimeError, MemoryError):
                    self._core = core_range(history)
            self._signature = before
            self.status = "ready"
            if prepare and self.shown is not None:
                # the tiles say what is wrong
                with suppress(MeantimeError, MemoryError):
                    self.shown.tree.prepare()
            return
        self.status = "following"
        self._follow(history, before, time.monotonic() - began)

    def stop(self) -> None:
        """End reading soon."""
        self._stopped.set()

    def _opened(self) -> History:
        if self._history is not None:
            return self._history
        path = self._source
        assert isinstance(path, str | os.PathLike)
        if is_history(path) or is_stored_history(path) or is_joined(path):
            return open_history(path, lenient=True)
        if (Path(path) / "segments").is_dir():
            return open_history(path, lenient=True)
        from meantime.history.builder import HistoryBuilder  # noqa: PLC0415 - a history is not read
        from meantime.history.ingest import ingest  # noqa: PLC0415 - as above
        from meantime.readers import open_trace  # noqa: PLC0415 - as above

        builder = HistoryBuilder()
        next_s = time.monotonic() + _SNAPSHOT_S

        def progress(done_bytes: int, total_bytes: int) -> None:
            nonlocal next_s
            self.read_bytes, self.total_bytes = done_bytes, total_bytes
            if self._stopped.is_set():
                raise _StoppedError
            now_s = time.monotonic()
            # in the thread that builds, so that nothing changes while the snapshot is taken
            if now_s >= next_s and self.status == "reading":
                self._show_growing(builder)
                took_s = time.monotonic() - now_s
                next_s = now_s + took_s + max(_SNAPSHOT_S, took_s / _SNAPSHOT_SHARE)

        return ingest(builder, open_trace(path, progress=progress))

    def _show_growing(self, builder: HistoryBuilder) -> None:
        try:
            history = builder.history.snapshot()
            if history.start_ns < history.end_ns:
                self._show(history)
        except MeantimeError as error:
            # what has been read so far may be in no order yet; the finished history is
            self.error = None if self.shown else _sentence(error)

    def changed(self) -> str | None:
        """Return what has happened to the file since it was read; None if nothing."""
        now_s = time.monotonic()
        if self._signature is not None and now_s >= self._next_look_s:
            now = _signature(self.path)
            # a directory may have many files
            self._next_look_s = 2 * time.monotonic() - now_s + _WATCH_S
            self._changed = None
            if now != self._signature:
                self._changed = _problem(self._signature, now) or "was changed after it was read"
        return self._changed

    def align(self, found: Alignment, clock: Clock) -> None:
        """Show the file in the times of the first one from now on, as messages say.

        Args:
            found: How its times become those.
            clock: Which clock these count.
        """
        self.found, self._clock = found, clock
        if found.drift_ppt and self._read is not None:
            self._show(self._read)

    def _show(self, history: History) -> None:
        """Let pages see a history from now on."""
        self._read = snapshot = history.snapshot()
        if self.found is not None and self.found.drift_ppt and self._clock is not None:
            snapshot = placed(snapshot, self.found.shift, self._clock)[0]
        tree = LaneTree.of(snapshot)
        before = self.shown
        if before is None:
            self.shown = Shown(tree, 1, 1)
            return
        layout = before.layout + (not tree.is_like(before.tree))
        # above the version of the last one, whatever damage that had
        self.shown = Shown(tree, layout, before.version + 1)

    def _follow(self, history: History, before: object, took_s: float) -> None:
        while not self._stopped.wait(max(_LOOK_S, took_s / _READING_SHARE - took_s)):
            now = _signature(self.path)
            began = time.monotonic()
            if now == before and history.built:
                continue
            problem = _problem(before, now)
            before = now
            if problem is not None:
                self.error = f"{self.path}: the file {problem}; what was read before is shown"
                if now is None:
                    continue
                self.status = "ready"
                return
            try:
                if history.built:
                    history = self._opened()
                    self._show(history)
                elif history.end_ns != self._end_ns():
                    self._show(history)
                self.error = None
            except _StoppedError:
                return
            except (MeantimeError, OSError, MemoryError) as error:
                # the writer may be in the middle of a record: the next look finds it whole
                self.error = f"{_sentence(error)}; what was read before is shown"
            took_s = time.monotonic() - began

    def _end_ns(self) -> int | None:
        return None if self._read is None else self._read.end_ns

    def document(self, reference: OpenFile) -> dict[str, Any]:
        """Return what a page needs to know of the file; the reference has the axis."""
        shown = self.shown
        error = self.error
        if error is None and shown is not None and (damage := shown.tree.history.damage):
            error = "; ".join(map(str, damage[:_MOST_DAMAGE]))
        known: dict[str, Any] = {
            "name": self.name,
            # standard input cannot be read again
            "path": "" if self.path == "-" else self.path,
            "options": self.options,
            "what": "",
            "status": self.status,
            "read_bytes": self.read_bytes,
            "total_bytes": self.total_bytes,
            "error": error,
            "changed": self.changed(),
            "layout": None if shown is None else shown.layout,
            "version": 0 if shown is None else shown.version,
        }
        if shown is None:
            return {**known, "start_ns": None, "end_ns": None, "offset_ns": "0", "aligned": None}
        tree, history = shown.tree, shown.tree.history
        start_ns, end_ns = history.bounds
        offset_ns, aligned = self.offset(reference)
        clock = history.clock
        anomalies, facts = dict(history.anomalies), history.facts
        if self.found is not None and self.found.note:
            facts = {**facts, "aligned": self.found.note}
            anomalies["clock_contradicted"] = int(self.found.contradicted_ns > 0)
        return {
            **known,
            "title": history.title,
            "what": " · ".join(filter(None, [history.metadata.format, history.title])),
            "start_ns": start_ns,
            "end_ns": end_ns,
            "offset_ns": offset_ns,
            "aligned": aligned,
            "clock": {
                "kind": clock.kind,
                "host": clock.host,
                "utc_at_origin_ns": clock.utc_at_origin_ns,
            },
            "lost_ns": [list(each) for each in history.lost[:_MOST_LOST]],
            "lost_rest": max(0, len(history.lost) - _MOST_LOST),
            "lost_of": _lost_of(history),
            "anomalies": [
                {"name": name, "count": count, "explanation": CATALOGUE.get(name, "")}
                for name, count in anomalies.items()
                if count
            ],
            "entities": sum(
                lane.entities for lane in tree.lanes if lane.kind in {"state", "packed"}
            ),
            "facts": facts,
            "groupings": tree.groupings,
            "core": None if self._core is None else asdict(self._core),
            "counts": {
                "spans": len(history.spans()),
                "samples": len(history.samples()),
                "points": len(history.points()),
                "flows": len(history.flows()),
            },
        }

    def offset(self, reference: OpenFile) -> tuple[int, str | None]:
        """Return what to add to the file's times, and how that is known."""
        if self.given_ns is not None:
            return self.given_ns, "given"
        if reference is self:
            return 0, "first"
        if self.shown is None or reference.shown is None:
            return 0, None
        if self.found is not None:
            return 0 if self.found.drift_ppt else self.found.offset_ns, self.found.how
        given = {} if reference.given_ns is None else {0: reference.given_ns}
        histories = [file.shown.tree.history for file in (reference, self) if file.shown]
        found = align_all([Clocked(each.clock, each.bounds[0]) for each in histories], given)[1]
        return found.offset_ns, found.how


def _lost_of(history: History) -> str | None:
    """Return `samples` if these are all that is missing in the lost ranges of a history."""
    anomalies = dict(history.anomalies)
    is_samples = _SAMPLES_LOST in anomalies and not _EVENTS_LOST & anomalies.keys()
    return "samples" if is_samples else None


def _signature(path: str) -> object:
    """Return what changes when a file or directory does; None if it is not there, or no file."""
    if path in {"", "-"} or is_url(path):
        return None
    try:
        found = Path(path).stat()
        if not Path(path).is_dir():
            return found.st_ino, found.st_size, found.st_mtime_ns
        parts = sorted(part for part in Path(path).rglob("*") if part.is_file())
        inside = tuple((str(part), part.stat().st_size, part.stat().st_mtime_ns) for part in parts)
    except OSError:
        return None
    return found.st_ino, inside


def _problem(before: Any, now: Any) -> str | None:
    """Return why what is read now would not continue what was read before."""
    if now is None:
        return "was deleted"
    if before is None:
        return "was deleted and written again"
    if before[0] != now[0]:
        return "was replaced by another one"
    if isinstance(now[1], int) and now[1] < before[1]:
        return "was cut"
    return None


def _sentence(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory to read the file"
    return " ".join(str(error).splitlines())


class Session:
    """The files that pages look at.

    Args:
        sources: Paths or histories.
        offsets_ns: By index of a source, what to add to its times.
        follow: Whether to read what is added to files.
        tour: What the page leads through.
        side_by_side: What the sources are compared for: they are its two runs.
        zone: The time zone in which times are shown first.

    Attributes:
        files: The files.
        tour: As given.
        token: Differs between sessions, so that no page uses tiles of another one.

    Raises:
        InputError: If a file does not exist.
    """

    def __init__(
        self,
        sources: Sequence[str | os.PathLike[str] | History],
        *,
        offsets_ns: dict[int, int] | None = None,
        follow: bool = False,
        tour: Tour | None = None,
        side_by_side: SideBySide | None = None,
        zone: Zone | None = None,
    ) -> None:
        given = offsets_ns or {}
        self.tour = tour
        self._side_by_side = side_by_side
        self._zone = zone
        read = (None,) * len(sources) if side_by_side is None else side_by_side.histories
        self.files: list[OpenFile] = [
            OpenFile(index, source, given_ns=given.get(index), read=history)
            for index, (source, history) in enumerate(zip(sources, read, strict=True))
        ]
        self.token: str = os.urandom(8).hex()
        self._follow = follow
        self._searched = False
        self._search = threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self, *, prepare: bool = False) -> None:
        """Read the files, each in a thread; once.

        Args:
            prepare: Whether to also make what a page asks for first.
        """
        for file in self.files[len(self._threads) :]:
            # a daemon: a reader that waits for a pipe must not keep the process
            thread = threading.Thread(
                target=file.read,
                kwargs={"follow": self._follow, "prepare": prepare},
                daemon=True,
            )
            thread.start()
            self._threads.append(thread)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the threads have ended; return whether they have."""
        for thread in self._threads:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """End the threads soon."""
        for file in self.files:
            file.stop()

    def _align_by_messages(self) -> bool:
        """Search for messages between files, once all have been read; return whether any decide.

        It is done once. What is added to files later is not searched.
        """
        if any(file.status == "reading" for file in self.files):
            return False
        with self._search:
            read = [(file, file.shown.tree.history) for file in self.files if file.shown]
            if not self._searched and read and read[0][0] is self.files[0]:
                given = {
                    index: file.given_ns
                    for index, (file, _) in enumerate(read)
                    if file.given_ns is not None
                }
                found = align_histories([history for _, history in read], given)
                for (file, _), each in zip(read, found, strict=True):
                    if each.note:
                        file.align(each, read[0][1].clock)
            self._searched = True
        return any(file.found is not None for file in self.files)

    def document(self) -> dict[str, Any]:
        """Return what a page needs to know first."""
        reference = self.files[0]
        files = [file.document(reference) for file in self.files]
        # after the states of files were noted: a page asks again until all have been read
        unsure = {"start", "utc"} & {each["aligned"] for each in files}
        if unsure and not self._searched and self._align_by_messages():
            files = [file.document(reference) for file in self.files]
        ranges = [
            (each["start_ns"] + each["offset_ns"], each["end_ns"] + each["offset_ns"])
            for each in files
            if each["start_ns"] is not None
        ]
        axis = None
        if ranges:
            axis = {
                "start_ns": min(start_ns for start_ns, _ in ranges),
                "end_ns": max(end_ns for _, end_ns in ranges),
            }
        document = {
            "protocol": 1,
            "title": files[0].get("title") or files[0]["name"],
            "files": files,
            "axis": axis,
        }
        # the axis is that of the first file, unless it could not be read
        utc_ns = files[0].get("clock", {}).get("utc_at_origin_ns")
        if self._zone is not None and axis is not None and utc_ns is not None:
            calendar = self._zone.offsets(axis["start_ns"] + utc_ns, axis["end_ns"] + utc_ns)
            document["zone"] = calendar.document()
        trees = [None if file.shown is None else file.shown.tree for file in self.files]
        if self.tour is not None:
            document["tour"] = self.tour.document(trees)
        if self._side_by_side is not None:
            document["title"] = self._side_by_side.title
            document["comparison"] = self._side_by_side.document(trees)
        return document
