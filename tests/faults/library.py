"""The library that makes calls fail: how it is compiled and used."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["STATE", "preloaded"]

# Names the file of the memory that the library and the runner share.
STATE = "MEANTIME_FAULTS"
_SOURCE = Path(__file__).resolve().parent / "faults.c"
_STATE_BYTES = 1 << 12


def preloaded(folder: Path) -> dict[str, str]:
    """Compile the library into a folder; return the environment of programs that load it."""
    library, state = folder / "faults.so", folder / "state"
    subprocess.run(
        [
            *("cc", "-O1", "-shared", "-fPIC", "-Wall", "-Werror"),
            *("-o", str(library), str(_SOURCE), "-ldl"),
        ],
        check=True,
    )
    state.write_bytes(bytes(_STATE_BYTES))
    return {"LD_PRELOAD": str(library), STATE: str(state)}
