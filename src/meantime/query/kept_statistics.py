"""Statistics of a whole history that an earlier question left beside it.

Of states, what is kept is what rows, histograms and transitions follow from, so that these are made
in one place; of spans, whose figures are exact, the rows. Only those of many intervals or spans are
kept: what is counted again in a few ms need not be.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from meantime.history.state_lengths import kept_answers
from meantime.query.state_durations import StateDurations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from meantime.history.directory.answers import Answers
    from meantime.history.history import History
    from meantime.model.columns import Int32s, Int64s

    KeptColumns: TypeAlias = tuple[list[str | None], dict[str, Int64s]]

__all__ = ["KeptSpans", "KeptStatistics"]


class KeptStatistics(NamedTuple):
    """What may be kept of the states of some attributes.

    Attributes:
        answers: Where it is kept.
        question: What it is an answer of.
        counted: Takes it.
        quarks: The attributes, in ascending order.
    """

    answers: Answers
    question: str
    counted: StateDurations
    quarks: Int32s

    @classmethod
    def of(
        cls,
        history: History,
        by: Literal["state", "entity"],
        quarks: Int32s,
        range_ns: tuple[int, int],
        *,
        short_lived: bool,
    ) -> KeptStatistics | None:
        """Return what there may be; None of a history that keeps nothing."""
        answers = kept_answers(history)
        if answers is None:
            return None
        which = blake2b(quarks.tobytes(), digest_size=16).hexdigest()
        question = f"statistics by {by} from {range_ns[0]} to {range_ns[1]} of {which}"
        if short_lived:
            question += ", which exist while they have a state"
        counted = StateDurations(range_ns, 0, is_apart=by == "entity")
        return cls(answers, question, counted, quarks)

    def found(self) -> tuple[StateDurations, npt.NDArray[np.uint64]] | None:
        """Return what was counted, and how long each attribute existed; None if it is not kept."""
        arrays = self.answers.find(self.question)
        if arrays is None:
            return None
        try:
            self.counted.restore(arrays)
            return self.counted, self._checked(arrays["existed"].view(np.uint64))
        except (KeyError, ValueError) as error:
            _warn(self.question, error)
            return None

    def _checked(self, existed: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Return how long each attribute existed.

        Raises:
            ValueError: If one that has a state did not, or it is not one of these attributes.
        """
        if len(existed) != len(self.quarks):
            raise ValueError("there are other attributes")
        if self.counted.is_apart:
            rows = self.counted.of_attributes().quark
            if not np.isin(rows, self.quarks).all():
                raise ValueError("there are other attributes")
            existed_of_rows = existed[np.searchsorted(self.quarks, rows)]
        else:
            existed_of_rows = existed if len(self.counted.names) else existed[:0]
        if len(existed_of_rows) and not int(existed_of_rows.max()):
            raise ValueError("states are of what never existed")
        return existed

    def keep(self, counted: StateDurations, existed: npt.NDArray[np.uint64]) -> None:
        """Keep what was counted."""
        self.answers.keep(self.question, {**counted.stored(), "existed": existed})


class KeptSpans(NamedTuple):
    """What may be kept of the spans of some threads.

    Attributes:
        answers: Where it is kept.
        question: What it is an answer of.
    """

    answers: Answers
    question: str

    @classmethod
    def of(
        cls,
        history: History,
        by: str,
        quarks: Sequence[int] | Int32s | None,
        start_ns: int | None,
        end_ns: int | None,
        *,
        whole: bool,
    ) -> KeptSpans | None:
        """Return what there may be; None of a part of a history, and where nothing is kept."""
        answers = kept_answers(history)
        if answers is None or (start_ns, end_ns) not in {(None, None), history.bounds}:
            return None
        which = "all"
        if quarks is not None:
            which = blake2b(np.asarray(quarks, np.int32).tobytes(), digest_size=16).hexdigest()
        clipped = "in full" if whole else f"from {start_ns} to {end_ns}"
        return cls(answers, f"statistics of spans by {by}, {clipped}, of {which}")

    def found(self, names: Sequence[str]) -> KeptColumns | None:
        """Return the keys of the rows, and columns of int64 with these names."""
        arrays = self.answers.find(self.question)
        if arrays is None:
            return None
        try:
            keys = json.loads(arrays["keys"].tobytes())
            columns = {name: arrays[name] for name in names}
            if not isinstance(keys, list) or not all(isinstance(each, str | None) for each in keys):
                raise ValueError("the keys are not texts")  # noqa: TRY301 - as all that is wrong
            if any(len(each) != len(keys) for each in columns.values()):
                raise ValueError("there are other rows")  # noqa: TRY301 - as above
        except (KeyError, ValueError) as error:
            _warn(self.question, error)
            return None
        return keys, columns

    def keep(self, keys: Sequence[str | None], columns: Mapping[str, Int64s]) -> None:
        """Keep rows with these keys, and their columns."""
        text = np.frombuffer(json.dumps([*keys]).encode(), np.uint8)
        self.answers.keep(self.question, {"keys": text, **columns})


def _warn(question: str, error: Exception) -> None:
    import logging  # noqa: PLC0415 - 2 ms, for damaged files only

    message = "%s, which are kept with the history, cannot be used: %s"
    logging.getLogger("meantime").warning(message, question, error)
