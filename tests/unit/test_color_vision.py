"""Colours that mean something, as people see them who confuse some of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from meantime.model.state_classes import CLASSES
from meantime.views.heatmap.color import Scale
from meantime.views.heatmap.palette import palette
from meantime.views.palette import RGB, choose, parse

# Machado, Oliveira and Fernandes (2009), full severity: what linear light becomes.
VISION = {
    "all cones": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
# Distances in OKLab, in which 100 is black to white: below it, two colours look alike side by side.
LEAST = 4.5
# What works or waits for something has to be told apart at a glance.
LOUD = {"running", "runnable", "blocked", "lock"}
LEAST_OF_LOUD = 8.0


def seen(color: RGB, vision: str) -> RGB:
    """Return a colour as it is seen."""
    part = np.array(color) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    light = np.clip(np.array(VISION[vision]) @ linear, 0, 1)
    encoded = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return RGB(*(255 * encoded).tolist())


def apart(one: RGB, other: RGB, vision: str) -> float:
    return seen(one, vision).distance(seen(other, vision))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("vision", VISION)
def test_classes_of_states_are_told_apart(vision: str, theme: str) -> None:
    colors = {each.name: parse(getattr(each, theme)) for each in CLASSES}
    for one, other in combinations(colors, 2):
        a, b = colors[one], colors[other]
        assert a is not None
        assert b is not None
        least = LEAST_OF_LOUD if {one, other} <= LOUD else LEAST
        assert apart(a, b, vision) >= least, (one, other)


@pytest.mark.parametrize("vision", VISION)
def test_states_without_a_class_are_told_apart_while_there_are_few(vision: str) -> None:
    found = choose([f"state {number}" for number in range(6)]).values()
    for one, other in combinations(found, 2):
        assert apart(one, other, vision) >= LEAST, (str(one), str(other))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("vision", VISION)
def test_more_is_always_farther_from_the_ground_in_heat_maps(vision: str, *, dark: bool) -> None:
    ramp = palette("even", Scale.of("rank", [])).ramp(0, dark=dark)[:: 256 // 16]
    ground = RGB(0, 0, 0) if dark else RGB(255, 255, 255)
    steps = np.diff([apart(RGB(*map(int, color)), ground, vision) for color in ramp])
    assert (steps > 0).all()
