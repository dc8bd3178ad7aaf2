"""Times and sizes as text. Everywhere else a time is an integer of nanoseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from operator import index
from typing import TYPE_CHECKING, Literal, NamedTuple, SupportsIndex, TypeAlias

from meantime.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Duration",
    "Instant",
    "Time",
    "bin_edge",
    "duration_ns",
    "format_bytes",
    "format_exact",
    "format_ns",
    "format_utc",
    "parse_duration",
    "parse_instant",
    "parse_size",
    "rounded_ns",
    "whole_ns",
]

# A time as an argument: nanoseconds, text as on the command line, or a date with a zone.
Time: TypeAlias = SupportsIndex | str | datetime
# How long something takes, the same way.
Duration: TypeAlias = int | str

MAX_NS = 2**63 - 1
NS_PER_S = 10**9

_UNITS_NS = {
    "": 1,
    "ns": 1,
    "us": 10**3,
    "μs": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": NS_PER_S,
    "sec": NS_PER_S,
    "m": 60 * NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
    "d": 86400 * NS_PER_S,
}
_NUMBER = r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?)([a-zµμ]*)"
# Units from a minute on, the longest first; and a duration in several of them, as it is printed.
_LONG_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_PARTS = r"([+-]?)(?:(\d[\d,]*) ?d ?)?(?:(\d+) ?h ?)?(?:(\d+) ?m(?:in)? ?)?(?:(\d+(?:\.\d+)?) ?s)?"
_SIZES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE = r"(\d{1,15}(?:\.\d{0,15})?)([kMGT]?)B?"
_INFINITE = r"(?i)([+-]?)(?:inf|infinity)([a-zµμ]*)"


class Instant(NamedTuple):
    """A point in time as typed on a command line.

    Attributes:
        ns: Nanoseconds.
        base: Where they count from: the beginning of the trace (`start`), 1970-01-01 (`utc`), or
            time 0 of the trace's own clock (`trace`).
        is_naive: Whether it was a date without a zone.
    """

    ns: int
    base: Literal["start", "utc", "trace"]
    is_naive: bool = False


def parse_duration(text: str) -> int:
    """Return the nanoseconds in a text such as `250`, `1.5ms`, `-2s`, `1e3us` or `1h 30min`.

    The decimal is exact; fractions of a nanosecond are truncated towards zero. Values beyond 64
    bits, and `inf`, become the nearest 64-bit number.

    >>> parse_duration("1.001ms"), parse_duration("2h"), parse_duration("-.5us")
    (1001000, 7200000000000, -500)
    >>> parse_duration("1 d 2 h") == parse_duration("1d2h") == parse_duration("26h")
    True

    Raises:
        UsageError: If the text is not a time.
    """
    if match := re.fullmatch(_NUMBER, text):
        number, unit = match.groups()
        if unit in _UNITS_NS:
            time_ns = _whole(number, _UNITS_NS[unit])
            return max(-MAX_NS - 1, min(MAX_NS, time_ns))
    if (match := re.fullmatch(_INFINITE, text)) and match[2] in _UNITS_NS:
        return -MAX_NS - 1 if match[1] == "-" else MAX_NS
    if (match := re.fullmatch(_PARTS, text)) and any(match.groups()[1:4]):
        sign, *parts = match.groups()
        whole_ns = sum(
            _whole((part or "0").replace(",", ""), unit_s * NS_PER_S)
            for part, (_, unit_s) in zip(parts, _LONG_UNITS, strict=True)
        )
        return max(-MAX_NS - 1, min(MAX_NS, -whole_ns if sign == "-" else whole_ns))
    raise UsageError(
        f"{text!r} is not a time; write a number and one of ns, us, ms, s, m, min, h or d"
    )


def _whole(number: str, unit_ns: int) -> int:
    """Return a decimal number of units in nanoseconds, truncated towards zero."""
    digits, _, exponent = number.lower().partition("e")
    before, _, after = digits.partition(".")
    # not by fractions.Fraction, which takes 3 ms to import
    scale = int(exponent or 0) - len(after)
    exact: int = (
        abs(int(f"{before}{after}")) * unit_ns * 10 ** max(scale, 0) // 10 ** max(-scale, 0)
    )
    return -exact if number.startswith("-") else exact


def parse_instant(text: str, to_utc: Callable[[int], int] | None = None) -> Instant:
    """Return the instant in a text: an offset, a date and time, `@SECONDS`, or `abs:TIME`.

    A date and time is ISO 8601, by default UTC; `@SECONDS` counts from 1970; `abs:` is a time of
    the trace's own clock. The fraction of a second may have any number of digits.

    >>> parse_instant("1.5s")
    Instant(ns=1500000000, base='start', is_naive=False)
    >>> parse_instant("abs:1.5s").base
    'trace'
    >>> parse_instant("@1528482355.856625707").ns
    1528482355856625707
    >>> parse_instant("2018-06-08T18:25:55.856625707Z").ns
    1528482355856625707

    Args:
        text: The text.
        to_utc: Returns UTC for a date without a zone, as if that was UTC, in nanoseconds since
            1970; None takes it for UTC.

    Raises:
        UsageError: If the text is none of them.
    """
    if text.startswith("@"):
        return Instant(parse_duration(text[1:] + "s"), "utc")
    if text.startswith("abs:"):
        return Instant(parse_duration(text[4:]), "trace")
    if re.match(r"\d{4}-\d\d-\d\d", text):
        whole, fraction, zone = _split_fraction(text)
        try:
            moment = datetime.fromisoformat(whole + zone)
        except ValueError:
            raise UsageError(f"{text!r} is not an ISO 8601 date and time") from None
        is_naive = moment.tzinfo is None
        if is_naive:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // _ONE_SECOND
        utc_ns = seconds * NS_PER_S + int(f"{fraction:0<9}"[:9] or "0")
        return Instant(to_utc(utc_ns) if is_naive and to_utc else utc_ns, "utc", is_naive)
    try:
        return Instant(parse_duration(text), "start")
    except UsageError as error:
        raise UsageError(f"{error}, or a date such as 2026-07-01T09:00:00Z") from None


def duration_ns(time: Duration) -> int:
    """Return a duration that is nanoseconds or text, in nanoseconds.

    >>> duration_ns(1500), duration_ns("1.5us")
    (1500, 1500)

    Raises:
        TypeError: If it is neither an integer nor a text.
        UsageError: If the text is not a duration.
    """
    return parse_duration(time) if isinstance(time, str) else whole_ns(time)


def whole_ns(time: SupportsIndex) -> int:
    """Return an integer of Python or NumPy as an int.

    Raises:
        TypeError: If it is something else.
    """
    try:
        return index(time)
    except TypeError:
        raise TypeError(
            f"a time is an integer of nanoseconds or a text such as '1.5ms', not {time!r}"
        ) from None


_ONE_SECOND = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)


def _split_fraction(text: str) -> tuple[str, str, str]:
    match = re.fullmatch(r"([^.,]+)(?:[.,](\d+))?(.*)", text, re.DOTALL)
    assert match is not None
    return match[1], match[2] or "", match[3]


def format_ns(duration_ns: int) -> str:
    """Return a duration: from a minute on in its two largest units, otherwise a decimal of one.

    >>> format_ns(3_352_000), format_ns(12), format_ns(61_000_000_000)
    ('3.352ms', '12ns', '1 min 1 s')
    >>> format_ns(359_999_982_800_000_000_000)
    '4,166,666 d 11 h'
    """
    if (text := _in_two_units(duration_ns)) is not None:
        return text
    for unit, scale in (("s", NS_PER_S), ("ms", 10**6), ("us", 10**3)):
        if abs(duration_ns) >= scale:
            sign = "-" if duration_ns < 0 else ""
            whole, rest = divmod((abs(duration_ns) * 1000 + scale // 2) // scale, 1000)
            return f"{sign}{whole}.{rest:03}".rstrip("0").rstrip(".") + unit
    return f"{duration_ns}ns"


def rounded_ns(duration_ns: float) -> str:
    """Return a duration as in a sentence: as `format_ns` does, but with three significant digits.

    >>> rounded_ns(212_345_678), rounded_ns(17), rounded_ns(1_500)
    ('212 ms', '17 ns', '1.5 us')
    >>> rounded_ns(9_000_000_000_000), rounded_ns(59_990_000_000)
    ('2 h 30 min', '1 min')
    """
    # what is rounded to 60 s is a minute
    if (text := _in_two_units(duration_ns, least_ns=60 * NS_PER_S - 5 * 10**7)) is not None:
        return text
    for unit, scale in (("s", NS_PER_S), ("ms", 10**6), ("us", 10**3), ("ns", 1)):
        # what would be rounded to 1000 of a unit is 1 of the next
        if duration_ns >= 0.9995 * scale or scale == 1:
            amount = duration_ns / scale
            digits = 2 if amount < 9.995 else 1 if amount < 99.95 else 0
            text = f"{amount:,.{digits}f}"
            return (text.rstrip("0").rstrip(".") if "." in text else text) + f" {unit}"
    raise AssertionError


def _in_two_units(duration_ns: float, least_ns: int = 60 * NS_PER_S - 5 * 10**5) -> str | None:
    """Return a duration of about a minute or more in its two largest units, otherwise None."""
    size_ns = abs(duration_ns)
    if size_ns < least_ns:
        return None
    at = 0
    while at < len(_LONG_UNITS) - 2 and size_ns < _LONG_UNITS[at][1] * NS_PER_S:
        at += 1
    (large, large_s), (small, small_s) = _LONG_UNITS[at : at + 2]
    smalls = (int(size_ns) + small_s * NS_PER_S // 2) // (small_s * NS_PER_S)
    count, rest = divmod(smalls, large_s // small_s)
    if at and count * large_s == _LONG_UNITS[at - 1][1]:
        large, count = _LONG_UNITS[at - 1][0], 1
    sign = "-" if duration_ns < 0 else ""
    return f"{sign}{count:,} {large}" + (f" {rest} {small}" if rest else "")


def format_exact(duration_ns: int) -> str:
    """Return a duration in the largest unit, up to seconds, in which it is at least 1, exactly.

    >>> format_exact(1_408_123), format_exact(-2_000_000_000), format_exact(0)
    ('1.408123ms', '-2s', '0s')
    """
    for unit, digits in (("s", 9), ("ms", 6), ("us", 3)):
        whole, rest = divmod(abs(duration_ns), 10**digits)
        if whole:
            sign = "-" if duration_ns < 0 else ""
            return f"{sign}{whole}.{rest:0{digits}}".rstrip("0").rstrip(".") + unit
    return f"{duration_ns}ns" if duration_ns else "0s"


def format_utc(utc_ns: int) -> str:
    """Return a time since 1970, UTC, as ISO 8601 with nine digits; after year 9999 as `@SECONDS`.

    >>> format_utc(1528482355856625707), format_utc(10**21)
    ('2018-06-08T18:25:55.856625707Z', '@1000000000000.000000000')
    """
    seconds, rest = divmod(utc_ns, NS_PER_S)
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + seconds * _ONE_SECOND
    except OverflowError:
        return f"@{seconds}.{rest:09}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def format_bytes(size_bytes: int) -> str:
    """Return a size in decimal units with up to three digits.

    >>> format_bytes(999), format_bytes(4_300_000)
    ('999 B', '4.3 MB')
    """
    if size_bytes < 1000:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in ("kB", "MB", "GB", "TB"):
        size /= 1000
        if size < 999.5:
            return f"{size:.3g} {unit}"
    return f"{size:.0f} TB"


def parse_size(text: str) -> int:
    """Return the bytes in a text such as `4096`, `50MB` or `2G`; units are decimal.

    >>> parse_size("1.5k"), parse_size("50MB")
    (1500, 50000000)

    Raises:
        UsageError: If the text is not a size.
    """
    found = re.fullmatch(_SIZE, text)
    if found is None:
        raise UsageError(f"{text!r} is not a size: write a number and k, M, G or T")
    return int(float(found[1]) * _SIZES[found[2]])


def bin_edge(start_ns: int, end_ns: int, bins: int, index: int) -> int:
    """Return where bin `index` of `bins` begins; bin i is [edge(i), edge(i + 1)).

    The edges are start + ceil(index * length / bins): integers, and the same in all views.

    >>> [bin_edge(0, 10, 4, index) for index in range(5)]
    [0, 3, 5, 8, 10]
    """
    return start_ns - (-(end_ns - start_ns) * index // bins)
