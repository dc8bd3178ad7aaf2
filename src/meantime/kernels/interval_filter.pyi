from typing import Final

from meantime.columns import Int64s
from meantime.history.interval_filter import IntervalFilter
from meantime.history.source import Question
from meantime.kernels.search import Segments

NEVER: Final[int]
SOME: Final[int]
NONE: Final[int]
EQUAL: Final[int]

def count_matching(segments: Segments, question: Question, criteria: IntervalFilter) -> Int64s: ...
def nearest_matching(
    segments: Segments, question: Question, criteria: IntervalFilter, backwards: bool
) -> tuple[int, int] | None: ...
