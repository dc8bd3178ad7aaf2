"""Which format an input is of: each format's signs are looked for, and the strongest count.

Signs are looked for from the strongest down to the first that is seen, so readers of weaker ones
are not imported. If formats are seen equally well, the name of the input decides between them, or
whoever uses it is asked. Readers that packages add are asked where nothing is more than a hint.
"""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from meantime.additions import READERS, additions, warn_about
from meantime.errors import InputError, UsageError
from meantime.readers.evidence import Head, Strength
from meantime.readers.formats import FORMATS
from meantime.readers.source import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.readers.contract import Reader
    from meantime.readers.evidence import Sign
    from meantime.readers.formats import Format
    from meantime.readers.refused import Refused
    from meantime.readers.source import Source

__all__ = [
    "Recognised",
    "head_of",
    "reader_named",
    "readers",
    "recognise",
    "recognise_columns",
    "seen",
    "takes_columns",
]

# The byte order marks of UTF-16 and UTF-32 and a character that ASCII has, or a line feed.
_WIDE_MARK = re.compile(rb"\xff\xfe(?:[\t-~]\0|\0\0)|\xfe\xff\0[\t-~]|\0\0\xfe\xff")
# How JSON in 2 or 4 bytes a character may begin, without a byte order mark.
_WIDE = {
    bytes(wide)
    for bracket in b"[{"
    for rest in b'{\r\n "]'
    for wide in (
        (bracket, 0, rest, 0),
        (0, bracket, 0, rest),
        (bracket, 0, 0, 0),
        (0, 0, 0, bracket),
    )
}
_BY_NAME = {each.format: each for each in FORMATS}


class Recognised(NamedTuple):
    """What an input is.

    Attributes:
        reader: The reader of its format.
        why: What speaks for the format, as the rest of a sentence.
    """

    reader: Reader
    why: str


def readers() -> Iterator[Reader]:
    """Yield the built-in readers of files, in the order in which formats are declared."""
    for each in FORMATS:
        if not each.is_directory:
            yield _reader(each)


def _reader(format_: Format) -> Reader:
    name = format_.module or format_.format
    return cast("Reader", import_module(f"meantime.readers.{name}"))


def recognise(source: Source) -> Recognised:
    """Return the reader of an input, and by what its format is recognised.

    Raises:
        InputError: If the input is empty, or of no format that is read, or of several.
    """
    head = head_of(source)
    found, refused = _strongest(head, Strength.GENERAL)
    if not found:
        if (added := _added(head, source)) is not None:
            return added
        if not refused:
            found, refused = _strongest(head, Strength.HINT)
    if len(found) > 1:
        raise InputError(source.name, _question(found, source.name))
    if found:
        [(format_, sign)] = found
        return Recognised(_reader(format_), sign.what)
    if refused:
        from meantime.readers.refused import advised  # noqa: PLC0415 - as below

        raise InputError(
            source.name,
            f"this is {refused[0].called}, which meantime does not read:"
            f" {advised(refused[0], source.name)}",
        )
    from meantime.readers.unknown import unknown  # noqa: PLC0415 - only for this message

    names = [each.value.FORMAT for each in additions(READERS, _is_reader)]
    raise InputError(source.name, unknown(head.data, names))


def seen(data: bytes, name: str, least: Strength = Strength.HINT) -> dict[str, str]:
    """Return the formats for which the beginning of an input speaks most, and what does.

    Formats that packages add are not among them, nor those for which less than `least` speaks.
    """
    found, _ = _strongest(Head(data, name), least)
    return {format_.format: sign.what for format_, sign in found}


def _strongest(head: Head, least: Strength) -> tuple[list[tuple[Format, Sign]], list[Refused]]:
    """Return the formats with the strongest signs, or else those of as strong ones not read."""
    for strength in sorted(Strength, reverse=True):
        if strength < least:
            break
        found = [
            (format_, sign)
            for format_ in FORMATS
            if (sign := _seen(format_, strength, head)) is not None
        ]
        if found:
            named = [each for each in found if head.is_named(*each[0].names)]
            return (named if len(named) == 1 else found), []
        if strength <= Strength.FORM and (refused := _refused(head, strength)):
            return [], refused
    return [], []


def _refused(head: Head, strength: Strength) -> list[Refused]:
    """Return the formats that are not read and have so strong a sign; of `FORM`, or a stronger."""
    from meantime.readers.refused import REFUSED  # noqa: PLC0415 - few inputs need it

    strongest = Strength.MAGIC if strength == Strength.FORM else strength
    found = []
    for each in REFUSED:
        signs = [sign for sign in each.signs if strength <= sign.strength <= strongest]
        best = max((sign.strength for sign in signs if sign.is_seen(head)), default=None)
        if best is not None:
            found.append((best, each))
    return [each for _, each in sorted(found, key=lambda pair: -pair[0])]


def _seen(format_: Format, strength: Strength, head: Head) -> Sign | None:
    """Return a sign of a format that is so strong, if there is one; its reader may be asked."""
    for sign in format_.signs:
        if sign.strength == strength and sign.is_seen(head):
            reader: Any = _reader(format_) if sign.asks else None
            if reader is None or reader.recognises(head.data, head.name):
                return sign
    return None


def _question(found: list[tuple[Format, Sign]], name: str) -> str:
    """Return what to choose between, with a command that does."""
    reasons = " and ".join(f"{format_.format} ({sign.what})" for format_, sign in found)
    file = "-" if name == STANDARD_INPUT else shlex.quote(name)
    return (
        f"its content fits {reasons}; choose one with --format, such as"
        f" `meantime info {file} --format {found[0][0].format}`"
    )


def _is_reader(value: Any) -> bool:
    return isinstance(getattr(value, "FORMAT", None), str) and all(
        callable(getattr(value, name, None)) for name in ("recognises", "read")
    )


def _added(head: Head, source: Source) -> Recognised | None:
    """Return the reader of a package that recognises an input."""
    for addition in additions(READERS, _is_reader):
        try:
            recognised = addition.value.recognises(head.data, source.name)
        except Exception as error:  # noqa: BLE001 - one bad package must not stop the others
            warn_about(addition, READERS, f"fails to recognise inputs ({error!r})")
            continue
        if recognised:
            return Recognised(
                cast("Reader", addition.value), f"is recognised by the package {addition.package}"
            )
    return None


def head_of(source: Source) -> Head:
    """Return the beginning of an input.

    Raises:
        InputError: If it is empty, or text of which a character has more than one byte.
    """
    data = source.head()
    if not data:
        raise InputError(source.name, "the input is empty")
    if _WIDE_MARK.match(data) or data[:4] in _WIDE:
        raise InputError(source.name, "the text is in UTF-16 or UTF-32: save it in UTF-8")
    return Head(data, source.name)


def recognise_columns(source: Source, *, has_pattern: bool = False) -> Recognised:
    """Return the reader of an input whose columns or fields are given, or a pattern of its lines.

    Raises:
        InputError: If it is neither a table nor a log.
    """
    head = head_of(source)
    if has_pattern:
        return Recognised(_reader(_BY_NAME["log"]), "is given a pattern")
    why = "is given columns"
    for strength in sorted(Strength, reverse=True):
        for format_ in FORMATS:
            if format_.takes_columns and (sign := _seen(format_, strength, head)) is not None:
                return Recognised(_reader(format_), f"{sign.what}, and {why}")
    first = head.text.split(b"\n", 1)[0].rstrip()
    if first.startswith(b"{") and first.endswith(b"}"):
        return Recognised(_reader(_BY_NAME["jsonl"]), why)
    if head.bracket or head.is_binary:
        raise InputError(
            source.name,
            "columns and pairs apply to tables and to logs of JSON lines; this is neither",
        )
    return Recognised(_reader(_BY_NAME["table"]), why)


def reader_named(format_: str) -> Reader | None:
    """Return the reader of a format; None for a format that only directories have.

    Raises:
        UsageError: If there is no such format.
    """
    if (declared := _BY_NAME.get(format_)) is not None:
        return None if declared.is_directory else _reader(declared)
    added = {each.value.FORMAT: each.value for each in additions(READERS, _is_reader)}
    if format_ in added:
        return cast("Reader", added[format_])
    names = sorted({*_BY_NAME, *added} - {"history"})
    raise UsageError(f"unknown format {format_!r}; choose one of {', '.join(names)}")


def takes_columns(format_: str) -> bool:
    """Return whether `--columns` says what the columns or fields of a format are."""
    return format_ in _BY_NAME and _BY_NAME[format_].takes_columns
