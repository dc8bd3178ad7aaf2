"""The palettes: ours, Cloud Analytics' and FlameScope's.

Ours have even steps of lightness, because people order colours by lightness, and can still do so
if they distinguish fewer hues. A single map ranges from pale yellow to dark violet, on a dark page
from dark violet to pale yellow; of several maps each has its own hue.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from meantime.errors import UsageError
from meantime.structs import struct
from meantime.views.heatmap.color import cloud_colors, cloud_hue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.views.heatmap.color import Colors, Norm, Scale

__all__ = ["PALETTES", "Palette", "palette"]

STEPS = 256
PALETTES = ("even", "cloud-analytics", "flamescope", "flamescope-enhanced")

# Hue (in OKLCH) and largest chroma of each ramp. The hues are those of Okabe and Ito's colours,
# which people with colour vision deficiencies can distinguish. The first is nearly grey: it is for
# what is not selected.
_HUES = ((250, 0.03), (40, 0.19), (255, 0.17), (165, 0.13), (335, 0.18), (85, 0.14), (205, 0.12))

# Lightness, chroma and hue of the ramp of a single map. An empty cell has the first colour, and the
# least value one that can be distinguished from it.
_LIGHT = (
    (0.975, 0.90, 0.78, 0.62, 0.46, 0.30),
    (0.012, 0.08, 0.14, 0.18, 0.16, 0.09),
    (95, 90, 65, 35, 10, -30),
)
_DARK = (
    (0.20, 0.32, 0.45, 0.60, 0.76, 0.93),
    (0.02, 0.09, 0.15, 0.17, 0.15, 0.10),
    (280, 300, 340, 385, 420, 460),
)
_LEAST = 0.12

_FLAMESCOPE = ("ffffff", "ff5032", "e50914")
_FLAMESCOPE_ENHANCED = ("ffffff", "6aaaff", "faa0b5", "ff5032", "e50914")


class Palette(Protocol):
    """Colours for maps drawn together, numbered from 0: alone or not selected, then selected."""

    @property
    def name(self) -> str:
        """The name on the command line."""

    @property
    def is_cloud(self) -> bool:
        """Whether the rules of Cloud Analytics apply.

        Then a map's colour follows from its position among all maps that are drawn, and selected
        names are mixed with the rest instead of drawn over it.
        """

    @property
    def hues(self) -> int | None:
        """How many names have different colours; None without such a number."""

    def empty(self, *, dark: bool = False) -> tuple[int, int, int]:
        """Return the colour of a cell that was recorded and is empty."""

    def ramp(self, index: int, *, dark: bool = False) -> Colors:
        """Return a map's colours from the weakest to the strongest, uint8, 256 x 3."""

    def colors(self, norm: Norm, index: int, *, dark: bool = False) -> Colors:
        """Return the colours of a map's cells, uint8, one dimension more than `norm`."""


@struct
class _Ramps:
    """A palette of ramps; further maps reuse them from the second on."""

    is_cloud: ClassVar = False
    name: str
    light: tuple[Colors, ...]
    dark: tuple[Colors, ...]
    light_empty: tuple[int, int, int] = (255, 255, 255)
    dark_empty: tuple[int, int, int] = (255, 255, 255)

    @property
    def hues(self) -> int | None:
        return len(self.light) - 1 or None

    def empty(self, *, dark: bool = False) -> tuple[int, int, int]:
        return self.dark_empty if dark else self.light_empty

    def ramp(self, index: int, *, dark: bool = False) -> Colors:
        ramps = self.dark if dark else self.light
        further = len(ramps) - 1
        return ramps[1 + (index - 1) % further if index and further else 0]

    def colors(self, norm: Norm, index: int, *, dark: bool = False) -> Colors:
        found: Colors = self.ramp(index, dark=dark)[np.rint(norm * (STEPS - 1)).astype(np.intp)]
        found[norm == 0] = self.empty(dark=dark)
        return found


@struct
class _Cloud:
    """Cloud Analytics' palette: white, and one hue for each map."""

    is_cloud: ClassVar = True
    hues: ClassVar = None
    name: str
    degrees: tuple[float, ...]

    def empty(self, *, dark: bool = False) -> tuple[int, int, int]:
        del dark
        return (255, 255, 255)

    def ramp(self, index: int, *, dark: bool = False) -> Colors:
        return self.colors(np.linspace(0, 1, STEPS), index, dark=dark)

    def colors(self, norm: Norm, index: int, *, dark: bool = False) -> Colors:
        del dark
        return cloud_colors(
            norm, self.degrees[index] if index < len(self.degrees) else cloud_hue(index)
        )


def palette(name: str, scale: Scale, *, maps: int = 1, hues: Sequence[float] = ()) -> Palette:
    """Return the palette of this name.

    Args:
        name: One of `PALETTES`.
        scale: The values drawn; FlameScope's enhanced colours change at 1 and at 3.
        maps: How many maps are drawn together.
        hues: Hues in degrees that replace Cloud Analytics' own.

    Raises:
        UsageError: If the palette is unknown, or does not accept hues.
    """
    if name == "cloud-analytics":
        if any(not 0 <= hue < 360 for hue in hues):
            raise UsageError("hues are degrees from 0 to less than 360")
        return _Cloud(name, tuple(hues))
    if hues:
        raise UsageError("hues apply to the palette cloud-analytics")
    if name == "even":
        return _even(several=maps > 1)
    if name == "flamescope":
        ramps = (_through(_FLAMESCOPE, (0, 0.5, 1)),)
    elif name == "flamescope-enhanced":
        low = (1 / scale.largest, 3 / scale.largest)
        ramps = (_through(_FLAMESCOPE_ENHANCED, (0, *low, max(0.5, *low), 1)),)
    else:
        raise UsageError(f"unknown palette {name!r}; choose one of: {', '.join(PALETTES)}")
    return _Ramps(name, ramps, ramps)


@lru_cache
def _even(*, several: bool) -> _Ramps:
    light, dark = [_ramp(*_LIGHT, least=_LEAST)], [_ramp(*_DARK, least=_LEAST)]
    empty = [
        (int(red), int(green), int(blue))
        for red, green, blue in (_ramp(*_LIGHT)[0], _ramp(*_DARK)[0])
    ]
    if several:
        light = [_ramp((0.93, 0.42), (chroma / 3, chroma), (hue, hue)) for hue, chroma in _HUES]
        dark = [_ramp((0.3, 0.85), (chroma / 3, chroma), (hue, hue)) for hue, chroma in _HUES]
        # What is not selected has less contrast than what is.
        light[0] = _ramp((0.955, 0.7), (0.008, 0.02), (250, 250))
        dark[0] = _ramp((0.24, 0.5), (0.01, 0.02), (250, 250))
    return _Ramps("even", tuple(light), tuple(dark), *empty)


def _ramp(
    lightness: Sequence[float],
    chroma: Sequence[float],
    hue: Sequence[float],
    *,
    least: float = 0.0,
) -> Colors:
    """Return a ramp through OKLCH colours, with less chroma where sRGB has no such colour.

    It begins at `least`, as a part of the way through the colours.
    """
    at = np.linspace(least, 1, STEPS)

    def between(values: Sequence[float]) -> Norm:
        return np.interp(at, np.linspace(0, 1, len(values)), values)

    lightnesses, vivid, hues = between(lightness), between(chroma), between(hue)
    # Bisection for the largest part of the chroma that sRGB can represent, in all steps at once;
    # lightness and hue are unchanged.
    low, high = np.zeros(STEPS), np.ones(STEPS)
    for _ in range(12):
        middle = (low + high) / 2
        linear = _linear_light(lightnesses, vivid * middle, hues)
        fits = ((linear >= 0) & (linear <= 1)).all(axis=-1)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    linear = np.clip(_linear_light(lightnesses, vivid * low, hues), 0, 1)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    colors: Colors = np.rint(encoded * 255).astype(np.uint8)
    return colors


# Ottosson's OKLab: from lightness, a and b to cube roots of cone responses, and from their cubes to
# linear red, green and blue.
_TO_CONES = np.array(
    [
        [1.0, 1.0, 1.0],
        [0.3963377774, -0.1055613458, -0.0894841775],
        [0.2158037573, -0.0638541728, -1.2914855480],
    ]
)
_TO_LIGHT = np.array(
    [
        [4.0767416621, -1.2684380046, -0.0041960863],
        [-3.3077115913, 2.6097574011, -0.7034186147],
        [0.2309699292, -0.3413193965, 1.7076147010],
    ]
)


def _linear_light(lightness: Norm, chroma: Norm, hue: Norm) -> Norm:
    a, b = chroma * np.cos(np.radians(hue)), chroma * np.sin(np.radians(hue))
    light: Norm = (np.stack([lightness, a, b], axis=-1) @ _TO_CONES) ** 3 @ _TO_LIGHT
    return light


def _through(colors: Sequence[str], positions: Sequence[float]) -> Colors:
    """Return a ramp that is linear in RGB from colour to colour."""
    at = np.linspace(0, 1, STEPS)
    stops = np.array([list(bytes.fromhex(color)) for color in colors], np.float64)
    channels = [np.interp(at, positions, stops[:, channel]) for channel in range(3)]
    return np.floor(np.stack(channels, axis=-1) + 0.5).astype(np.uint8)
