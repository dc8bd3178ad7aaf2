"""Events other than spans of threads, as columns, and the instants among them."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from meantime.model.attribute_paths import GLOBAL
from meantime.model.columns import distinct
from meantime.model.trace import Arguments, Points
from meantime.readers.private_fields import leave_private_arguments_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.kernels.chrome import ChromeScanner
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch, Trace
    from meantime.readers.chrome.entities import Entities
    from meantime.readers.chrome.text import Strings

__all__ = ["PROFILES", "RecordRows", "Records", "Rows", "read_points"]

Rows: TypeAlias = "npt.NDArray[np.intp]"

# Not strict: tracers leave control characters in strings. `json.loads` would create such a decoder
# at each call.
_DECODER = json.JSONDecoder(strict=False)
_INSTANTS = "iIR"
# Events of these names are V8 profiles; some tracers write them as instants.
PROFILES = frozenset({"Profile", "ProfileChunk", "CpuProfile"})


class Records:
    """The scanner's records, sorted by time; equal times stay in the order of the file.

    Attributes:
        time_ns: The times; 0 for metadata without a time.
        thread: The scanner's threads.
        name: Index into the trace's values; that of the empty string where there is no name.
        category: Index into the trace's categories, or -1.
        id: Index into `entities.ids`, or -1.
        scope: Index into `entities.ids`, or -1.
        phase: The phase's letter.
        flags: The scanner's FLOW_IN and FLOW_OUT.
        reach: The letter of an instant's scope; 0 if it has none.
        trace: The trace being read.
        entities: Its paths.
    """

    def __init__(
        self,
        columns: dict[str, Any],
        names: Strings,
        categories: Strings,
        entities: Entities,
        trace: Trace,
    ) -> None:
        time_ns: Int64s = columns["time_ns"]
        # most files are in the order of time
        is_ordered = not (time_ns[1:] < time_ns[:-1]).any()
        rows = slice(None) if is_ordered else np.argsort(time_ns, kind="stable")
        self.time_ns: Int64s = time_ns[rows]
        self.thread: Int32s = columns["thread"][rows]
        self.name: Int32s = names.map_or_empty(columns["name"][rows])
        self.category: Int32s = categories.map(columns["category"][rows])
        self.id: Int32s = columns["id"][rows]
        self.scope: Int32s = columns["scope"][rows]
        self.phase: npt.NDArray[np.uint8] = columns["phase"][rows]
        self.flags: npt.NDArray[np.uint8] = columns["flags"][rows]
        self.reach: npt.NDArray[np.uint8] = columns["reach"][rows]
        self.arguments: Arguments = Arguments(
            columns["args_offset"][rows], columns["args_length"][rows]
        )
        self.trace = trace
        self.entities = entities

    def rows(self, letters: str) -> Rows:
        """Return the rows with one of these phases."""
        return np.flatnonzero(self.is_phase(letters))

    def is_phase(self, letters: str) -> npt.NDArray[np.bool_]:
        """Return a mask of the records with one of these phases."""
        return _is_phase(self.phase, letters)

    def of(self, letters: str) -> Records:
        """Return the records with one of these phases: these themselves if all have one."""
        chosen = self.is_phase(letters)
        if chosen.all():
            return self
        other = copy.copy(self)
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray):
                setattr(other, name, column[chosen])
        other.arguments = Arguments(self.arguments.offset[chosen], self.arguments.length[chosen])
        return other

    def name_of(self, row: int) -> str:
        """Return a record's name."""
        name: str = self.trace.values[self.name[row]]
        return name

    def arguments_at(self, rows: Rows) -> Arguments:
        """Return the arguments of these records, not decoded."""
        return Arguments(self.arguments.offset[rows], self.arguments.length[rows])

    def arguments_of(self, row: int) -> object:
        """Return a record's decoded arguments; None if they are malformed."""
        return _json(self.arguments_text(row) or b"{}")

    def arguments_text(self, row: int) -> bytes:
        """Return a record's arguments as they are in the file; b"" if it has none."""
        offset, length = int(self.arguments.offset[row]), int(self.arguments.length[row])
        return self.trace.text.read(offset, length)


class RecordRows:
    """The scanner's records that were read and not delivered yet.

    Instants need not wait. All other records do: an async span, a flow or an object is complete
    when all is read, metadata may come last, and the type of a counter is that of all its values.
    """

    def __init__(
        self, trace: Trace, names: Strings, categories: Strings, entities: Entities
    ) -> None:
        self._tables = (names, categories, entities, trace)
        self._parts: list[dict[str, Any]] = []

    def add(self, scanner: ChromeScanner) -> None:
        """Add what was scanned since the last call."""
        columns = scanner.records()
        trace = self._tables[3]
        leave_private_arguments_out(
            columns["args_offset"], columns["args_length"], trace.text, trace.anomalies
        )
        self._parts.append(columns)

    def instants(self) -> Records | None:
        """Return the instants among what was added last; they are removed."""
        columns = self._parts[-1]
        phase = columns["phase"]
        chosen = _is_phase(phase, _INSTANTS)
        if not chosen.any():
            return None
        instants = {name: column[chosen] for name, column in columns.items()}
        names, trace = self._tables[0], self._tables[3]
        rows = np.flatnonzero(phase == ord("I"))
        texts = names.map_or_empty(columns["name"][rows])
        profiles = [code for code in distinct(texts).tolist() if trace.values[code] in PROFILES]
        # what they profile is read at the end too, as from events of the profiles' own phase
        rows = rows[np.isin(texts, profiles)]
        phase[rows] = ord("P")
        chosen[rows] = False
        self._parts[-1] = {name: column[~chosen] for name, column in columns.items()}
        return Records(instants, *self._tables)

    def rest(self) -> Records:
        """Return the records that waited."""
        parts, self._parts = self._parts, []
        columns = {
            # removed as they are joined, so that not all are in memory twice
            name: np.concatenate([part.pop(name) for part in parts])
            if len(parts) > 1
            else parts[0][name]
            for name in [*parts[0]]
        }
        return Records(columns, *self._tables)


def _is_phase(phase: npt.NDArray[np.uint8], letters: str) -> npt.NDArray[np.bool_]:
    text = phase.tobytes()
    if not any(letter in text for letter in letters.encode()):
        return np.zeros(len(phase), np.bool_)
    is_one = np.zeros(256, np.bool_)
    is_one[np.frombuffer(letters.encode(), np.uint8)] = True
    return is_one[phase]


def _json(text: bytes) -> object:
    try:
        return _DECODER.decode(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def read_points(records: Records) -> Iterator[Batch]:
    """Yield the instants."""
    rows = records.rows(_INSTANTS)
    if not len(rows):
        return
    # R events have no scope: they belong to their thread
    reach = np.where(records.phase[rows] == ord("R"), ord("t"), records.reach[rows])
    thread = records.thread[rows]
    entity = np.empty(len(rows), np.int32)
    whole, process = reach == ord("g"), reach == ord("p")
    if whole.any():
        entity[whole] = records.entities.code((GLOBAL,))
    for code in distinct(thread[process]):
        entity[process & (thread == code)] = records.entities.process(int(code))
    on_thread = ~(whole | process)
    entity[on_thread] = records.entities.threads(thread[on_thread])
    yield Points(
        time_ns=records.time_ns[rows],
        entity=entity,
        name=records.name[rows],
        target=np.full(len(rows), -1, np.int32),
        arguments=records.arguments_at(rows),
    )
