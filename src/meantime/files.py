"""Files that appear under their name only when they are whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["write_whole"]


def write_whole(path: Path, chunks: Iterable[bytes]) -> None:
    """Write the chunks to a temporary name beside a file, then give it the file's name.

    Raises:
        OSError: If it cannot be written; then nothing is left behind.
    """
    target = path.resolve()
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)  # noqa: PTH101 - mkstemp makes it private; a result is not
        os.replace(name, target)  # noqa: PTH105 - the pair of mkstemp
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
