"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["whole_file", "write_whole"]


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file beside a path, which is renamed to the path if no exception is raised.

    Raises:
        OSError: If it cannot be written; the temporary file is removed then.
    """
    # in the target's own directory, since a rename is atomic within a file system only; a symbolic
    # link is resolved, so that it still refers to the result
    target = path.resolve()
    # not by tempfile, which takes 2 ms to import and makes private files; a result is not private
    temporary = target.parent / f".{target.name}.{os.urandom(4).hex()}"
    file = temporary.open("xb")
    try:
        with file:
            yield file
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(path: Path, chunks: Iterable[bytes]) -> None:
    """Write the chunks to a file that appears under its name when it is complete.

    Raises:
        OSError: If it cannot be written; nothing is left of it then.
    """
    with whole_file(path) as file:
        file.writelines(chunks)
