"""Statistics of a whole history that an earlier question left beside it.

What is kept is what rows, histograms and transitions follow from, so that these are made in one
place. Only sketches of many intervals are kept: what is counted again in a few ms need not be.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from meantime.history.state_lengths import kept_answers
from meantime.query.state_durations import StateDurations

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history.directory.answers import Answers
    from meantime.history.history import History
    from meantime.model.columns import Int32s

__all__ = ["KeptStatistics"]


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
            import logging  # noqa: PLC0415 - 2 ms, for damaged files only

            message = "%s, which are kept with the history, cannot be used: %s"
            logging.getLogger("meantime").warning(message, self.question, error)
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
