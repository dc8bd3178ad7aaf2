"""Writing results: never half a file, and standard output only where it makes sense."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.errors import OutputError
from meantime.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["write"]


def write(path: str, chunks: Iterable[bytes]) -> None:
    """Write the chunks to a file, or to standard output if the path is `-`.

    A file appears under its name only when it is whole; a pipe or device is written as it is.

    Raises:
        OutputError: If the file cannot be written.
    """
    if path == "-":
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return
    try:
        if _is_special(path):
            with Path(path).open("wb") as file:
                file.writelines(chunks)
        else:
            write_whole(Path(path), chunks)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from None


def _is_special(path: str) -> bool:
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - one call tells all
    except FileNotFoundError:
        return False
