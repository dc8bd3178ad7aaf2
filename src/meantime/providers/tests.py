"""The states of tests that the pytest plugin records."""

from __future__ import annotations

from meantime.model.trace import LaneDeclaration, State

__all__ = ["TESTS"]

_COLORS = {
    "setup": "#8fb8de",
    "call": "#2f9e54",
    "teardown": "#b9a7d6",
    "passed": "#5c6b7a",
    "failed": "#c62828",
    "skipped": "#b9c2cf",
}

# the lane of tests: those of a file share its rows
TESTS = LaneDeclaration(
    "Tests/*/*",
    entity_kind="Test",
    label="Tests",
    states=tuple(
        State(name, number, color) for number, (name, color) in enumerate(_COLORS.items())
    ),
    short_lived=True,
)
