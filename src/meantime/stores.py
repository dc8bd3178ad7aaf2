"""URLs as inputs and outputs: objects in stores that fsspec reaches, such as `s3://` and `https://`.

A URL may contain credentials: a password before the host, or a signature after a `?`. So what
everything here passes on is a `StoreUrl`, a text without these, which messages, histories and pages
may have. Only this module knows the whole URL. fsspec is imported when a URL is opened.
"""

from __future__ import annotations

import os
import re
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, overload

from meantime.errors import InputError, MissingExtraError, OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Self

__all__ = [
    "JOINED_SCHEMES",
    "StoreFile",
    "StoreUrl",
    "blocks_of",
    "is_there",
    "is_url",
    "matching_urls",
    "place_of",
    "put_directory",
    "put_file",
    "store_url",
    "version_of",
]

PathT = TypeVar("PathT")
T = TypeVar("T")

# The stores that the file of a joined history may refer to, which someone else may have written.
JOINED_SCHEMES = frozenset({"s3", "gs", "gcs", "az", "abfs", "https", "memory"})
_URL = r"(?s)([A-Za-z][A-Za-z0-9+.-]+)://([^/?#]*)([^?#]*)(.*)"
_BLOCK_BYTES = 1 << 23
_ATTEMPTS = 3
_PAUSE_S = 0.1
_MISSING = 404
# What stores report that changes with the content, by fsspec's names.
_VERSIONS = ("ETag", "etag", "sha256", "md5Hash", "generation", "LastModified", "mtime", "created")
# Stores without directories: to make one would make the bucket, whose name may be misspelled.
_OBJECT_STORES = frozenset({*JOINED_SCHEMES - {"memory"}, "s3a", "abfss", "oss", "oci", "http"})
# What exceptions of botocore mean.
_KNOWN = {
    "NoCredentialsError": "there are no credentials for the store",
    "NoSuchBucket": "there is no such bucket",
}
# By the URL as it is shown, the URL as it was given.
_GIVEN: dict[str, str] = {}


class StoreUrl(str):
    """A URL as it is shown: without password, query and fragment."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Callable[[str], StoreUrl], tuple[str]]:
        # workers need the whole of it
        return store_url, (_GIVEN.get(self, str(self)),)


def is_url(path: object) -> bool:
    """Return whether a path is a URL.

    >>> is_url("s3://bucket/a.mth"), is_url("/tmp/a.mth"), is_url("C:/a.mth")
    (True, False, False)
    """
    if not isinstance(path, str | os.PathLike):
        return False
    text = os.fspath(path)
    return "://" in text and re.match(_URL, text) is not None


@overload
def store_url(path: str) -> StoreUrl: ...
@overload
def store_url(path: PathT) -> PathT: ...
def store_url(path: Any) -> Any:
    """Return the URL as it is shown; what is not a URL is returned as it is.

    >>> store_url("https://me:secret@host/a.json?signature=secret")
    'https://host/a.json'
    """
    if not isinstance(path, str) or isinstance(path, StoreUrl) or "://" not in path:
        return path
    found = re.fullmatch(_URL, path)
    if found is None:
        return path
    scheme, place, below, _ = found.groups()
    shown = f"{scheme}://{place.rpartition('@')[2]}{below}"
    number = 1
    # URLs that differ in what is not shown are numbered
    while _GIVEN.setdefault(name := shown if number == 1 else f"{shown}#{number}", path) != path:
        if name == path:  # it is one that was numbered
            break
        number += 1
    return StoreUrl(name)


def place_of(url: str) -> str:
    """Return which store a URL is in: its scheme and its host or bucket.

    >>> place_of("s3://bucket/folder/a.mth"), place_of("https://me:secret@Host:8443/a.mth")
    ('s3://bucket', 'https://host:8443')
    """
    scheme, _, rest = url.partition("://")
    host = "" if scheme == "memory" else re.split(r"[/?#]", rest, maxsplit=1)[0]
    return f"{scheme}://{host.rpartition('@')[2]}".lower()


class StoreFile:
    """An object that is read from its beginning to its end, unbuffered; see `open_source`.

    Attributes:
        size: How many bytes it has; None if the store does not say.

    Raises:
        InputError: If it cannot be read.
        MissingExtraError: If fsspec, or its package for the store, is not installed.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        system, path = _system(url)
        options = {"cache_type": "none", "block_size": _BLOCK_BYTES}
        self._file = _asked(url, lambda: system.open(path, "rb", **options))
        size = getattr(self._file, "size", None)
        self.size: int | None = size if isinstance(size, int) else None
        self._read_bytes = 0
        self._block = memoryview(b"")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it."""
        _asked(self._url, self._file.close, 1)

    def readinto(self, buffer: memoryview) -> int:
        """Read the next bytes and return how many; 0 at the end.

        Raises:
            InputError: If the store fails, also repeatedly, or stops before the end.
        """
        if not self._block:
            self._block = memoryview(self._next())
            self._read_bytes += len(self._block)
        count = min(len(buffer), len(self._block))
        buffer[:count] = self._block[:count]
        self._block = self._block[count:]
        if not count and len(buffer) and self.size is not None and self._read_bytes < self.size:
            raise InputError(
                self._url,
                f"the store stopped answering after {self._read_bytes:,} of {self.size:,} bytes",
            )
        return count

    def _next(self) -> bytes:
        can_repeat = self.size is not None and bool(self._file.seekable())

        def read() -> bytes:
            if can_repeat and self._read_bytes:
                self._file.seek(self._read_bytes)
            return bytes(self._file.read(_BLOCK_BYTES))

        return _asked(self._url, read, _ATTEMPTS if can_repeat else 1)


def blocks_of(url: str) -> Iterator[bytes]:
    """Yield the bytes of an object.

    Raises:
        InputError: If it cannot be read.
        MissingExtraError: If fsspec, or its package for the store, is not installed.
    """
    with StoreFile(url) as file:
        block = bytearray(_BLOCK_BYTES)
        while count := file.readinto(memoryview(block)):
            yield bytes(block[:count])


def version_of(url: str) -> str | None:
    """Return a digest that differs between contents of an object; None if the store has none.

    Raises:
        InputError: If there is no such object.
        MissingExtraError: If fsspec, or its package for the store, is not installed.
    """
    system, path = _system(url)
    info = _asked(url, lambda: system.info(path))
    versions = [f"{name}={info[name]}" for name in _VERSIONS if info.get(name)]
    if not versions:
        return None
    from hashlib import blake2b  # noqa: PLC0415 - 4 ms, and most inputs are files

    text = "\0".join([*versions, str(info.get("size"))])
    return blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()


def matching_urls(url: str) -> list[str]:
    """Return the objects that match a pattern, in order of their names.

    Raises:
        InputError: If the store does not answer.
        MissingExtraError: If fsspec, or its package for the store, is not installed.
    """
    system, path = _system(url)
    found = sorted(_asked(url, lambda: system.glob(path)))
    return [store_url(system.unstrip_protocol(each)) for each in found]


def is_there(url: str) -> bool:
    """Return whether there is an object with this URL.

    Raises:
        InputError: If the store does not answer.
        MissingExtraError: If fsspec, or its package for the store, is not installed.
    """
    system, path = _system(url)
    return bool(_asked(url, lambda: system.exists(path)))


def put_directory(folder: Path, url: str, last: str) -> None:
    """Copy the files of a directory, one by one; the one called `last` makes the copy complete.

    Raises:
        OutputError: If one cannot be written.
        MissingExtraError: If fsspec, or its package for the store, is not installed.
    """
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    for file in sorted(files, key=lambda each: each.name == last):
        put_file(file, f"{url.rstrip('/')}/{file.relative_to(folder).as_posix()}")


def put_file(file: Path, url: str) -> None:
    """Copy a file to an object.

    Raises:
        OutputError: If it cannot be written.
        MissingExtraError: If fsspec, or its package for the store, is not installed.
    """
    try:
        system, path = _system(url)
        above = path.rpartition("/")[0]
        if _scheme(url).lower() not in _OBJECT_STORES:
            _asked(url, lambda: system.makedirs(above, exist_ok=True))
        _asked(url, lambda: system.put_file(os.fspath(file), path))
    except InputError as error:
        raise OutputError(f"{error.source}: cannot be written: {error.reason}") from None


def _system(url: str) -> tuple[Any, str]:
    """Return the file system of fsspec for a URL, and the path in it."""
    shown, given = _given(url)
    try:
        core = import_module("fsspec.core")
    except ImportError:
        raise MissingExtraError(
            f"{shown}: reading and writing URLs needs fsspec, which is not installed:"
            " pip install 'meantime[fleet]'"
        ) from None
    try:
        system, path = core.url_to_fs(given)
    except ImportError:
        package = _needed(shown)
        raise MissingExtraError(
            f"{shown}: fsspec needs {package} for this store, which is not installed:"
            f" pip install {package}"
        ) from None
    except Exception as error:  # noqa: BLE001 - each store raises its own
        raise InputError(shown, _reason(shown, error)[0]) from None
    return system, path


def _given(url: str) -> tuple[str, str]:
    """Return a URL as it is shown, and as it was given."""
    shown: str = store_url(url)
    above = shown
    while _GIVEN.get(above, above) == above and "/" in above:
        above = above.rpartition("/")[0]
    found = re.fullmatch(_URL, _GIVEN.get(above, ""))
    if found is None:
        return shown, shown
    # what is below a URL with credentials needs the same
    scheme, place, below, query = found.groups()
    return shown, f"{scheme}://{place}{below}{shown[len(above) :]}{query}"


def _scheme(url: str) -> str:
    return url.partition(":")[0]


def _needed(url: str) -> str:
    """Return the package that fsspec needs for a store."""
    scheme = _scheme(url)
    known = import_module("fsspec.registry").known_implementations.get(scheme, {})
    module = str(known.get("class", scheme)).partition(".")[0]
    return "aiohttp" if module == "fsspec" and scheme.startswith("http") else module


def _asked(url: str, ask: Callable[[], T], attempts: int = _ATTEMPTS) -> T:
    """Return what a store answers; it is asked again if it fails.

    Raises:
        InputError: If it still does: one sentence, without what its exception says, which may have
            the whole URL, or headers.
    """
    for attempt in range(1, attempts + 1):
        try:
            return ask()
        except Exception as error:  # noqa: BLE001 - each store raises its own
            reason, is_final = _reason(url, error)
            if is_final or attempt == attempts:
                raise InputError(store_url(url), reason) from None
        time.sleep(_PAUSE_S * attempt)
    raise AssertionError


def _reason(  # noqa: PLR0911 - one for each reason
    url: str, error: Exception
) -> tuple[str, bool]:
    """Return what is wrong, and whether asking again cannot help."""
    # fsspec takes each failure of http for a missing file
    cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
    status = getattr(cause, "status", None) or _status_of_botocore(cause)
    if status in {401, 403} or isinstance(error, PermissionError):
        answered = f"the store answered {status}" if status else "the store does not permit it"
        return f"{answered}; check its credentials", True
    if (known := _KNOWN.get(type(cause).__name__)) is not None:
        return known, True
    if status == _MISSING or (cause is error and isinstance(error, FileNotFoundError)):
        return "there is no such object", True
    if isinstance(status, int) and status:
        return f"the store answered {status}", False
    if isinstance(error, ValueError) and "rotocol not known" in str(error):
        return f"{_scheme(url)}:// is not a store that fsspec knows", True
    if isinstance(cause, TimeoutError):
        return "the store did not answer in time", False
    return f"the store failed ({type(cause).__name__})", False


def _status_of_botocore(error: Exception) -> int | None:
    """Return the status of an answer of S3, whose errors have it in a dictionary."""
    try:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]  # type: ignore[attr-defined] # of some errors only
    except (AttributeError, KeyError, TypeError):
        return None
    return status if isinstance(status, int) else None
