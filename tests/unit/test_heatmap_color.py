from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from meantime.errors import UsageError
from meantime.query.offsets import Cells, Fold, OffsetMap
from meantime.views.heatmap.color import Scale, cloud_colors, mix
from meantime.views.heatmap.figure import draw
from meantime.views.heatmap.look import Look
from meantime.views.heatmap.palette import PALETTES, palette
from meantime.views.heatmap.selection import Selection

if TYPE_CHECKING:
    from meantime.views.heatmap.color import Colors, Norm


def norms(method: str, *maps: list[float]) -> list[list[float]]:
    arrays = [np.array(each) for each in maps]
    assert method in {"rank", "linear"}
    scale = Scale.of("rank" if method == "rank" else "linear", arrays, ties="upper")
    return [scale.norm(each).tolist() for each in arrays]


def test_rank_is_the_share_of_cells_that_are_not_greater() -> None:
    assert norms("rank", [1, 1, 1, 1, 1, 1, 1, 2, 3, 9]) == [[0.7] * 7 + [0.8, 0.9, 1.0]]


def test_rank_gives_a_flat_map_the_strongest_colour() -> None:
    assert norms("rank", [4, 4, 0, 4]) == [[1, 1, 0, 1]]


def test_rank_counts_the_cells_of_all_maps_and_not_the_empty_ones() -> None:
    assert norms("rank", [1, 0, 2], [3, 3, 0]) == [[0.25, 0, 0.5], [1, 1, 0]]


def test_ties_have_the_middle_of_their_ranks() -> None:
    values = [20] * 18 + [80] * 2
    norm = Scale.of("rank", [np.array(values)]).norm(np.array([0, 20, 80]))

    assert norm.tolist() == [0, 0.45, 0.95]


def test_a_load_of_four_times_the_common_one_is_seen_at_a_glance() -> None:
    scale = Scale.of("rank", [np.array([20] * 57 + [80] * 3)])
    for dark in (False, True):
        common, high = palette("even", scale).colors(scale.norm(np.array([20, 80])), 0, dark=dark)

        # of 100 from black to white
        assert abs(lightness(common) - lightness(high)) > 20


def test_linear_is_in_proportion_to_the_largest_of_all_maps() -> None:
    assert norms("linear", [1, 2], [4, 0]) == [[0.25, 0.5], [1, 0]]


def test_linear_takes_1_for_the_largest_where_all_are_smaller() -> None:
    assert norms("linear", [0.25, 0.5]) == [[0.25, 0.5]]


def test_nothing_at_all_is_nothing() -> None:
    assert norms("rank", [0, 0]) == norms("linear", [0, 0]) == [[0, 0]]


def test_a_locked_scale_gives_a_value_beyond_it_the_strongest_colour() -> None:
    for method in ("rank", "linear"):
        scale = Scale.of(method, [np.array([1, 2])], ties="upper")

        assert scale.norm(np.array([5])).tolist() == [1]


@pytest.mark.parametrize(
    ("norm", "hue", "color"),
    [
        (0, 21, (255, 255, 255)),
        (1, 21, (242, 101, 24)),
        (0.5, 21, (242, 171, 133)),
        (0.7, 21, (242, 143, 90)),
        (1, 112, (53, 242, 24)),
        (1, 203, (24, 159, 242)),
        (1, 294, (220, 24, 242)),
        (1, 25, (242, 115, 24)),
        (0.25, 203, (188, 221, 242)),
        (1, 0, (242, 24, 24)),
        (1, 60, (242, 242, 24)),
        (1, 120, (24, 242, 24)),
    ],
)
def test_cloud_analytics_colours(norm: float, hue: int, color: tuple[int, int, int]) -> None:
    assert tuple(cloud_colors(np.array([norm]), hue)[0].tolist()) == color


def test_two_maps_in_a_cell_mix_by_strength_and_cut_the_fraction_off() -> None:
    parts = [(np.array([0]), np.array([strength])) for strength in (0.5, 0.25)]
    colors = [cloud_colors(parts[0][1], 21), cloud_colors(parts[1][1], 112)]

    # (242, 171, 133) * 2/3 + (195, 242, 188) / 3 = (226.3, 194.7, 151.3)
    white = np.full((2, 3), 255, np.uint8)
    assert mix(parts, colors, white).tolist() == [[226, 194, 151], [255, 255, 255]]


def test_a_selected_name_covers_the_rest_and_is_seen_where_it_has_little() -> None:
    busy = Cells(np.arange(8), np.array([90, 91, 92, 93, 94, 95, 96, 97]))
    rare = Cells(np.array([3]), np.array([1]))
    total = Cells(np.arange(8), busy.value + (np.arange(8) == 3))
    found = OffsetMap(Fold(0, 8, 8), "count", total, {"busy": busy, "rare": rare})
    for dark in (False, True):
        image = draw(found, Selection(("rare",)), Look(), title="").colors(dark=dark)
        selected, rest = (image[::-1][row, 0].astype(int) for row in (3, 4))

        # away from grey, while the rest is grey
        assert np.ptp(selected) > 90
        assert np.ptp(rest) < 25


def test_every_name_has_a_hue_when_all_are_drawn() -> None:
    one = Cells(np.array([0]), np.array([3]))
    by = {str(number): one for number in range(9)}
    found = OffsetMap(Fold(0, 10, 2), "count", one, by)
    figure = draw(found, Selection(mode="decompose"), Look(), title="")
    strongest = figure.palette.ramp(figure.layers[0].index)[-1].astype(int)

    assert np.ptp(strongest) > 60
    assert "The 9 names share 6 colours." in figure.notes


def test_flamescope_goes_through_orange_at_half() -> None:
    scale = Scale.of("linear", [np.array([1, 4])])
    found = palette("flamescope", scale).colors(scale.norm(np.array([0, 2, 4])), 0)

    # half of 255 steps lies between two of them
    assert np.abs(found.astype(int) - [[255] * 3, [255, 80, 50], [229, 9, 20]]).max() <= 1


def test_flamescope_enhanced_changes_at_one_and_three() -> None:
    scale = Scale.of("linear", [np.array([1, 3, 255])])
    found = palette("flamescope-enhanced", scale).colors(scale.norm(np.array([1, 3, 255])), 0)

    assert found.tolist() == [[106, 170, 255], [250, 160, 181], [229, 9, 20]]


def lightness(colors: Colors) -> Norm:
    """CIE L* of sRGB colours: another measure than the one the ramps are made by."""
    encoded = colors / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    y = linear @ [0.2126, 0.7152, 0.0722]
    found: Norm = np.where(y > 0.008856, 116 * np.cbrt(y) - 16, 903.3 * y)
    return found


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(("maps", "index"), [(1, 0), *[(7, index) for index in range(7)]])
def test_our_ramps_grow_in_even_steps_of_lightness(maps: int, index: int, dark: bool) -> None:  # noqa: FBT001 - a parameter of the test
    ramp = palette("even", Scale.of("rank", []), maps=maps).ramp(index, dark=dark)
    steps = np.diff(lightness(ramp[::15])) * (1 if dark else -1)

    assert (steps > 0).all()
    assert steps.max() < 3 * steps.min()


def test_more_maps_than_hues_begin_again_with_a_selected_one() -> None:
    ours = palette("even", Scale.of("rank", []), maps=9)

    assert ours.ramp(7).tolist() == ours.ramp(1).tolist() != ours.ramp(0).tolist()


@pytest.mark.parametrize("name", PALETTES)
def test_an_empty_cell_has_the_palettes_colour_for_empty(name: str) -> None:
    found = palette(name, Scale.of("linear", [np.array([1, 9])]))

    assert found.colors(np.array([0.0]), 0).tolist() == [list(found.empty())]


def test_an_unknown_palette_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        UsageError, match="unknown palette 'jet'; choose one of: even, cloud-analytics"
    ):
        palette("jet", Scale.of("rank", []))


def test_hues_out_of_the_circle_or_for_another_palette_are_refused() -> None:
    scale = Scale.of("rank", [])

    with pytest.raises(UsageError, match="degrees"):
        palette("cloud-analytics", scale, hues=[360])
    with pytest.raises(UsageError, match="apply to the palette cloud-analytics"):
        palette("even", scale, hues=[1])


def test_cloud_analytics_hues_go_to_maps_by_their_index() -> None:
    one = Cells(np.array([0]), np.array([3]))
    found = OffsetMap(Fold(0, 10, 2), "count", one, {"a": one, "b": one})

    def hues(mode: str) -> list[list[int]]:
        look = Look(palette="cloud-analytics", hues=(100, 200))
        figure = draw(found, Selection(("a",), mode), look, title="")
        return [figure.palette.ramp(layer.index)[-1].tolist() for layer in figure.layers]

    first, second = (cloud_colors(np.array([1.0]), hue)[0].tolist() for hue in (100, 200))
    assert hues("highlight") == [first, second]
    assert hues("isolate") == [first]
    assert hues("exclude") == [first]
    assert hues("decompose") == [first, second]
