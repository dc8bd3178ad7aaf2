"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        # the mask can only be read by setting it
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)  # noqa: PTH101 - mkstemp makes it private; a result is not
        os.replace(name, target)  # noqa: PTH105 - the pair of mkstemp
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_whole(path: Path, chunks: Iterable[bytes]) -> None:
    """Write the chunks to a file that appears under its name when it is complete.

    Raises:
        OSError: If it cannot be written; nothing is left of it then.
    """
    with whole_file(path) as file:
        file.writelines(chunks)
