"""Files that appear under their name only when they are whole."""

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
    """Yield a temporary file beside a file, which gets the file's name when all went well.

    Raises:
        OSError: If it cannot be written; then nothing is left behind.
    """
    target = path.resolve()
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)  # noqa: PTH101 - mkstemp makes it private; a result is not
        os.replace(name, target)  # noqa: PTH105 - the pair of mkstemp
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_whole(path: Path, chunks: Iterable[bytes]) -> None:
    """Write the chunks to a file that appears under its name when it is whole.

    Raises:
        OSError: If it cannot be written; then nothing is left behind.
    """
    with whole_file(path) as file:
        file.writelines(chunks)
