"""The base class of what views return: shown by a notebook, saved to a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from meantime.errors import OutputError, UsageError
from meantime.files import mode_of, write_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Self

__all__ = ["Picture"]

_NOTEBOOK_HEIGHT_PX = 640


class Picture:
    """A picture that is rendered when it is shown or saved.

    Attributes:
        noun: The word for it in messages.
        formats: The formats it can be written in: the suffixes of file names, without the dot.
    """

    noun: ClassVar[str]
    formats: ClassVar[tuple[str, ...]]
    _sources: Collection[object] = ()

    def render(self, form: str) -> Iterable[bytes]:
        """Return the content of a file in one of `formats`."""
        raise NotImplementedError

    def made_of(self, sources: Collection[object]) -> Self:
        """Return this picture, saved for those who may read all files among these sources."""
        self._sources = sources
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file, which appears under its name only when it is complete.

        The name's suffix, one of `formats`, decides what is written.

        Raises:
            UsageError: If the suffix is unknown, or the drawing has no such format.
            OutputError: If the file cannot be written.
        """
        target = Path(path)
        form = target.suffix.lower()[1:]
        if form not in self.formats:
            *others, last = (f".{name}" for name in self.formats)
            raise UsageError(
                f"{os.fspath(path)!r}: a {self.noun} is written as {', '.join(others)} or {last}"
            )
        try:
            write_whole(target, self.render(form), mode_of(self._sources))
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None

    def _repr_html_(self) -> str:
        from base64 import b64encode  # noqa: PLC0415 - for notebooks only

        # a separate document, since a notebook does not run scripts in its output
        file = b64encode(b"".join(self.render("svg"))).decode()
        return (
            f'<iframe src="data:image/svg+xml;base64,{file}"'
            f' style="width:100%;height:{_NOTEBOOK_HEIGHT_PX}px;border:0"></iframe>'
        )
