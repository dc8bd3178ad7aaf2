"""States as spans, for formats without states: each attribute of a state lane is a thread."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from meantime.history.samples import ALL_EVENTS
from meantime.history.spans import SpanTable
from meantime.model.columns import Coded, Interner, named
from meantime.model.trace import ArgumentText
from meantime.query.statistics import state_quarks

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.history.samples import SampleTable
    from meantime.model.columns import Int32s
    from meantime.query.counting import Exported

__all__ = ["only", "with_states_as_spans"]


def only(history: History, of: Exported, lost: Counter[str]) -> History:
    """Return a history without spans, samples or both, which are counted as lost."""
    found = history.spans()
    spans, samples = len(found), len(history.samples(event=ALL_EVENTS))
    if of != "spans" and spans:
        lost["spans"] += spans
        found = found.select([])
    if of != "samples":
        lost["samples"] += samples
    return cast("History", _WithSpans(history, found, with_samples=of == "samples"))


def with_states_as_spans(history: History, lost: Counter[str], *, are_kept: bool = True) -> History:
    """Return a history whose states are spans too, with the fields of their tags as arguments.

    Unless they are kept, they are only counted.
    """
    quarks = state_quarks(history)
    quarks = quarks[history.has_values(quarks)]
    if not len(quarks):
        return history
    found = _spans(history, quarks)
    if not are_kept:
        lost["states"] += len(found)
        return history
    spans = _joined(history.spans(), found)
    lost["states, which became spans"] += len(spans) - len(history.spans())
    return cast("History", _WithSpans(history, spans))


class _WithSpans:
    """A history whose spans are replaced; everything else is forwarded."""

    def __init__(self, history: History, spans: SpanTable, *, with_samples: bool = True) -> None:
        self._history = history
        self._spans = spans
        self._with_samples = with_samples

    def __getattr__(self, name: str) -> Any:
        return getattr(self._history, name)

    def spans(
        self,
        quarks: Sequence[int] | Int32s | None = None,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> SpanTable:
        """Return the spans; see `History.spans`."""
        return self._spans.select(quarks, start_ns=start_ns, end_ns=end_ns)

    def samples(self, *quarks: Any, **options: Any) -> SampleTable:
        """Return the samples; see `History.samples`."""
        found = self._history.samples(*quarks, **options)
        return found if self._with_samples else found.select([])


def _spans(history: History, quarks: Int32s) -> SpanTable:
    begin_ns, finish_ns = history.bounds
    names: list[str] = []
    code_of_name = Interner(names)
    text = ArgumentText()
    tag_offsets, tag_lengths = _tag_arguments(history, text)
    parts = []
    for batch in history.interval_batches(quarks, history.start_ns, history.end_ns):
        column = named(batch.value)
        of_code = code_of_name.codes(column.names)
        kept = (column.codes >= 0) & (batch.start_ns <= finish_ns) & (batch.end_ns > begin_ns)
        # the interval that the last change begins has no length within the bounds
        parts.append(
            (
                batch.quark[kept],
                np.maximum(batch.start_ns[kept], begin_ns),
                np.minimum(batch.end_ns[kept], finish_ns),
                of_code[column.codes[kept]],
                batch.tag[kept],
            )
        )
    quark, start_ns, end_ns, name, tag = (
        np.concatenate(columns) for columns in zip(*parts, strict=True)
    )
    rows = len(quark)
    threads = quarks[np.isin(quarks, quark)]
    return SpanTable.of_arrays(
        threads=threads,
        offsets=np.append(np.searchsorted(quark, threads), rows).astype(np.int64),
        start_ns=start_ns,
        end_ns=end_ns,
        name=Coded(name, names),
        category=Coded(np.full(rows, -1, np.int32), []),
        depth=np.zeros(rows, np.int32),
        lane=np.zeros(rows, np.int32),
        parent=np.full(rows, -1, np.int32),
        flags=np.zeros(rows, np.uint8),
        arguments_offset=tag_offsets[tag],
        arguments_length=tag_lengths[tag],
        text=text,
    )


def _tag_arguments(
    history: History, text: ArgumentText
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Add the fields of each tag to the text; return offsets and lengths, the last for no tag."""
    arguments = [json.dumps(dict(fields), default=str).encode() for fields in history.tags]
    offset = [text.add(fields) for fields in arguments]
    return (
        np.array([*offset, 0], np.int64),
        np.array([*map(len, arguments), 0], np.int32),
    )


def _joined(first: SpanTable, second: SpanTable) -> SpanTable:
    """Return one table with the rows, texts, names and categories of both."""
    if not len(first):
        return second
    text = ArgumentText()
    offsets: list[int] = []
    for table in (first, second):
        offsets += [
            text.add(table.text.read(offset, length)) if length else 0
            for offset, length in zip(
                table.arguments_offset.tolist(), table.arguments_length.tolist(), strict=True
            )
        ]
    shift = len(first)
    parent = np.where(second.parent < 0, np.int32(-1), second.parent + np.int32(shift))
    return SpanTable.of_arrays(
        threads=np.concatenate([first.threads, second.threads]),
        offsets=np.concatenate([first.offsets, second.offsets[1:] + shift]),
        start_ns=np.concatenate([first.start_ns, second.start_ns]),
        end_ns=np.concatenate([first.end_ns, second.end_ns]),
        name=_both(first.name, second.name),
        category=_both(first.category, second.category),
        depth=np.concatenate([first.depth, second.depth]),
        lane=np.concatenate([first.lane.astype(np.int32), second.lane]),
        parent=np.concatenate([first.parent, parent]),
        flags=np.concatenate([first.flags, second.flags]),
        arguments_offset=np.array(offsets, np.int64),
        arguments_length=np.concatenate([first.arguments_length, second.arguments_length]),
        text=text,
    )


def _both(first: Coded, second: Coded) -> Coded:
    moved = np.where(second.codes < 0, np.int32(-1), second.codes + np.int32(len(first.names)))
    return Coded(np.concatenate([first.codes, moved]), [*first.names, *second.names])
