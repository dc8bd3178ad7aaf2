"""What a running Python process is doing, read from outside: without stopping or changing it."""

from __future__ import annotations

from meantime.inspection.processes import (
    InspectedProcess,
    InspectedTask,
    InspectedThread,
    inspect_process,
)

__all__ = ["InspectedProcess", "InspectedTask", "InspectedThread", "inspect_process"]
