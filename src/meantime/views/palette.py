"""Colours: parse those that traces define, and choose one for each name without a definition."""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from meantime.state_classes import class_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["RGB", "at_night", "choose", "oklch", "pale_at_night", "parse"]

_HEX = re.compile("#[0-9a-fA-F]{6}")
_NAMED_HEX = re.compile("([a-z]+)(#[0-9a-f]{6})")

_CSS = """
aliceblue#f0f8ff antiquewhite#faebd7 aqua#00ffff aquamarine#7fffd4 azure#f0ffff beige#f5f5dc
bisque#ffe4c4 black#000000 blanchedalmond#ffebcd blue#0000ff blueviolet#8a2be2 brown#a52a2a
burlywood#deb887 cadetblue#5f9ea0 chartreuse#7fff00 chocolate#d2691e coral#ff7f50
cornflowerblue#6495ed cornsilk#fff8dc crimson#dc143c cyan#00ffff darkblue#00008b
darkcyan#008b8b darkgoldenrod#b8860b darkgray#a9a9a9 darkgreen#006400 darkgrey#a9a9a9
darkkhaki#bdb76b darkmagenta#8b008b darkolivegreen#556b2f darkorange#ff8c00
darkorchid#9932cc darkred#8b0000 darksalmon#e9967a darkseagreen#8fbc8f darkslateblue#483d8b
darkslategray#2f4f4f darkslategrey#2f4f4f darkturquoise#00ced1 darkviolet#9400d3
deeppink#ff1493 deepskyblue#00bfff dimgray#696969 dimgrey#696969 dodgerblue#1e90ff
firebrick#b22222 floralwhite#fffaf0 forestgreen#228b22 fuchsia#ff00ff gainsboro#dcdcdc
ghostwhite#f8f8ff gold#ffd700 goldenrod#daa520 gray#808080 green#008000 greenyellow#adff2f
grey#808080 honeydew#f0fff0 hotpink#ff69b4 indianred#cd5c5c indigo#4b0082 ivory#fffff0
khaki#f0e68c lavender#e6e6fa lavenderblush#fff0f5 lawngreen#7cfc00 lemonchiffon#fffacd
lightblue#add8e6 lightcoral#f08080 lightcyan#e0ffff lightgoldenrodyellow#fafad2
lightgray#d3d3d3 lightgreen#90ee90 lightgrey#d3d3d3 lightpink#ffb6c1 lightsalmon#ffa07a
lightseagreen#20b2aa lightskyblue#87cefa lightslategray#778899 lightslategrey#778899
lightsteelblue#b0c4de lightyellow#ffffe0 lime#00ff00 limegreen#32cd32 linen#faf0e6
magenta#ff00ff maroon#800000 mediumaquamarine#66cdaa mediumblue#0000cd mediumorchid#ba55d3
mediumpurple#9370db mediumseagreen#3cb371 mediumslateblue#7b68ee mediumspringgreen#00fa9a
mediumturquoise#48d1cc mediumvioletred#c71585 midnightblue#191970 mintcream#f5fffa
mistyrose#ffe4e1 moccasin#ffe4b5 navajowhite#ffdead navy#000080 oldlace#fdf5e6 olive#808000
olivedrab#6b8e23 orange#ffa500 orangered#ff4500 orchid#da70d6 palegoldenrod#eee8aa
palegreen#98fb98 paleturquoise#afeeee palevioletred#db7093 papayawhip#ffefd5
peachpuff#ffdab9 peru#cd853f pink#ffc0cb plum#dda0dd powderblue#b0e0e6 purple#800080
rebeccapurple#663399 red#ff0000 rosybrown#bc8f8f royalblue#4169e1 saddlebrown#8b4513
salmon#fa8072 sandybrown#f4a460 seagreen#2e8b57 seashell#fff5ee sienna#a0522d silver#c0c0c0
skyblue#87ceeb slateblue#6a5acd slategray#708090 slategrey#708090 snow#fffafa
springgreen#00ff7f steelblue#4682b4 tan#d2b48c teal#008080 thistle#d8bfd8 tomato#ff6347
turquoise#40e0d0 violet#ee82ee wheat#f5deb3 white#ffffff whitesmoke#f5f5f5 yellow#ffff00
yellowgreen#9acd32
"""

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
    """Return the colour of a text, `#rrggbb` or a name of CSS in lower case; or None.

    >>> parse("#FF8000"), parse("teal"), parse("Red"), parse("#f80")
    (RGB(red=255, green=128, blue=0), RGB(red=0, green=128, blue=128), None, None)
    """
    if not _HEX.fullmatch(text):
        if not text.isascii() or not text.isalpha():
            return None
        text = _named().get(text, "")
        if not text:
            return None
    return RGB(int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16))


def _named() -> dict[str, str]:
    return dict(_NAMED_HEX.findall(_CSS))


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
