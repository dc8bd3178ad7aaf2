"""The phases of tests, as records of the recording that they run in."""

from __future__ import annotations

from itertools import count

from meantime.collect import _recorder

__all__ = ["Phases"]

_PHASE = _recorder.KINDS["PHASE"]
_MAX_NAME = 500
_numbers = count(1)


class Phases:
    """Records the phases of one test.

    Args:
        file: The test's file.
        name: Its name in the file, with its class and parameters.
    """

    def __init__(self, file: str, name: str) -> None:
        self._number = next(_numbers)
        self._name = f"{file[:_MAX_NAME]}\0{name[:_MAX_NAME]}"
        self.outcome = "passed"

    def begin(self, phase: str) -> None:
        """Record that `setup`, `call` or `teardown` begins."""
        _recorder.emit_text(_PHASE, self._number, f"{self._name}\0{phase}")

    def end(self) -> None:
        """Record the outcome of the test."""
        self.begin(self.outcome)
        self.begin("")
