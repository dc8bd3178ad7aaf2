"""Colours: parse those that traces define, and choose one for each name without a definition."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from meantime.model.css_colors import color_hex
from meantime.model.state_classes import class_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["RGB", "at_night", "choose", "oklch", "pale_at_night", "parse"]

# Seven of Okabe and Ito's and six of Tol's, which people who confuse red and green can distinguish.
_SAFE = [
    *("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#f0e442"),
    *("#332288", "#117733", "#882255", "#999933", "#44aa99", "#aa4499"),
]
_LIGHTER, _DARKER = 0.45, -0.35
_SHADES = (0.0, 0.35, -0.3, 0.6, -0.5)
# Colours that are nearer to each other in OKLab (100 is black to white) are hard to distinguish.
_ALIKE = 8.0
# Colours that are nearer to white are hardly more than the ground of a page by day.
_PALE = 14.0
# The quiet classes of states are nearer than that to each other.
_ALIKE_CLASSES = 5.0


class RGB(NamedTuple):
    """A colour as sRGB encodes it, each part from 0 to 255."""

    red: int
    green: int
    blue: int

    def __str__(self) -> str:
        return f"#{self.red:02x}{self.green:02x}{self.blue:02x}"

    def shaded(self, part: float) -> RGB:
        """Return this colour moved towards white by a fraction, or to black by a negative one."""
        goal = 255 if part > 0 else 0
        return RGB(*(round(value + (goal - value) * abs(part)) for value in self))

    def is_like(self, other: RGB) -> bool:
        """Return whether two colours are hard to distinguish side by side."""
        return self.distance(other) < _ALIKE

    def distance(self, other: RGB) -> float:
        """Return how different two colours look: 100 is the distance of black and white.

        >>> round(RGB(0, 0, 0).distance(RGB(255, 255, 255)))
        100
        """
        return 100 * math.dist(_oklab(self), _oklab(other))


@functools.cache
def _oklab(color: RGB) -> tuple[float, float, float]:
    """Return lightness, green to red, and blue to yellow, after Ottosson's OKLab."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in color)
    )
    long = math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    medium = math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    short = math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


@functools.cache
def oklch(lightness: float, chroma: float, hue: float) -> RGB:
    """Return a colour by lightness and chroma, up to 1, and hue in degrees, after OKLab."""
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3  # noqa: E741 - the cone's name
    m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3
    return RGB(
        _encoded(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
        _encoded(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
        _encoded(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
    )


def _encoded(part: float) -> int:
    light = min(1.0, max(0.0, part))
    if light <= 0.0031308:
        return int(255 * 12.92 * light + 0.5)
    return int(255 * (1.055 * light ** (1 / 2.4) - 0.055) + 0.5)


def parse(text: str) -> RGB | None:
    """Return the colour of a text, in one of the forms that `color_hex` reads; or None.

    >>> parse("#F80"), parse("teal"), parse("rgb(1, 2, 3)")
    (RGB(red=255, green=136, blue=0), RGB(red=0, green=128, blue=128), None)
    """
    found = color_hex(text)
    if found is None:
        return None
    return RGB(int(found[1:3], 16), int(found[3:5], 16), int(found[5:7], 16))


def choose(names: Iterable[str], taken: Iterable[RGB] = ()) -> dict[str, RGB]:
    """Return a colour for each name, distinct as long as there are enough, unlike those taken.

    A name that identifies a class of states has the colour of that class, or a shade of it. For the
    others a hash of the name selects a colour from those that are left. Names are processed in
    sorted order: the order in which they are passed makes no difference.

    >>> {name: str(color) for name, color in choose(["idle", "busy"]).items()}
    {'idle': '#ebedf1', 'busy': '#f0e442'}
    """
    wanted = sorted(set(names))
    avoided = list(taken)
    chosen: dict[str, RGB] = {}
    for name in sorted(wanted, key=_is_typical, reverse=True):
        for color in _class_shades(name):
            if all(color.distance(other) >= _ALIKE_CLASSES for other in avoided):
                chosen[name] = color
                avoided.append(color)
                break
    safe = [color for color in map(parse, _SAFE) if color]
    free = safe + [color.shaded(part) for part in (_LIGHTER, _DARKER) for color in safe]
    free = [color for color in free if not any(map(color.is_like, avoided))] or free
    left = list(free)
    for name in wanted:
        if name in chosen:
            continue
        if not left:
            left = list(free)
        code = crc32(name.encode("utf-8", "surrogatepass"))
        # the front of the list is the most distinct: the others are used after it
        front = [color for color in left if color in safe] or left
        chosen[name] = front[code % len(front)]
        left.remove(chosen[name])
    return chosen


def pale_at_night(color: RGB) -> RGB | None:
    """Return what a colour that is nearly white becomes on dark ground; None for any other.

    It is of the same hue, and as near to the ground as before: white boxes would outshine the rest.

    >>> str(pale_at_night(RGB(0xDB, 0xE4, 0xEE))), pale_at_night(RGB(0xE8, 0xA3, 0x3D))
    ('#2d3843', None)
    """
    lightness, a, b = _oklab(color)
    if color.distance(RGB(255, 255, 255)) >= _PALE:
        return None
    return oklch(1.25 - lightness, 1.5 * math.hypot(a, b), math.degrees(math.atan2(b, a)))


def at_night(name: str, color: RGB) -> RGB | None:
    """Return what `choose` would choose on dark ground; None if it chose no colour of a class.

    >>> str(at_night("running", RGB(0x1D, 0x87, 0x59)))
    '#42be90'
    """
    by_day = _class_shades(name)
    known = class_of(name)
    if known is None or color not in by_day:
        return None
    night = parse(known.dark)
    # away from the ground by day is away from it at night
    return night and night.shaded(-_SHADES[by_day.index(color)])


def _class_shades(name: str) -> list[RGB]:
    known = class_of(name)
    color = known and parse(known.light)
    return [color.shaded(part) for part in _SHADES] if color else []


def _is_typical(name: str) -> bool:
    known = class_of(name)
    return known is not None and known.name in name.lower()
