"""One declaration of an option, and what follows from it."""

from __future__ import annotations

import inspect
from typing import Any

import click
import pytest
from click.testing import CliRunner

from meantime.cli.options import options_of
from meantime.cli.stats_options import StatsOptions
from meantime.errors import UsageError
from meantime.options import Options, keywords_of, names_option, option, time_text
from meantime.view_functions.flame_options import FlameArguments
from meantime.view_functions.heatmap_options import HeatmapArguments
from meantime.view_functions.statemap_options import StatemapArguments

CLASSES = [FlameArguments, HeatmapArguments, StatemapArguments, StatsOptions]


class Shared(Options):
    """What several take."""

    names: tuple[str, ...] = names_option(
        "--only",
        help="Only these names.",
        more="See [names](names.md).",
    )


class Drawn(Shared):
    """What is drawn.

    Raises:
        UsageError: If it has no width.
    """

    width: int = option("-w", "--width", default=3, parse=int, help="Width.")
    shaded: bool = option("--flat", default=True, help="Draw no shades.", keyword="Draw shades.")
    marks: tuple[str, ...] = option("--mark", default=(), repeated=True, help="Mark this.")
    title: str | None = option(absent="none", help="Title.")

    def _check(self) -> None:
        if not self.width:
            raise UsageError("no width")


@keywords_of(Drawn)
def draw(what: str, **given: Any) -> str:
    """Draw it.

    Args:
        what: It.
        **given: How.

    Raises:
        UsageError: If it has no width.
    """
    return f"{what} {' '.join(Drawn(**given).words())}".strip()


def test_options_are_keywords_with_their_documentation() -> None:
    assert draw("x") == "x"
    assert draw("x", width=4, shaded=False) == "x -w 4 --flat"
    assert list(inspect.signature(draw).parameters) == [
        *("what", "width", "shaded", "marks", "title", "names"),
    ]
    assert inspect.getdoc(draw) == (
        "Draw it.\n\nArgs:\n    what: It.\n    width: Width. By default 3.\n"
        "    shaded: Draw shades.\n    marks: Mark this.\n    title: Title. By default none.\n"
        "    names: Only these names. See names.\n\nRaises:\n    UsageError: If it has no width."
    )
    assert inspect.getdoc(Drawn) == (
        "What is drawn.\n\nAttributes:\n    width: Width. By default 3.\n"
        "    shaded: Draw shades.\n    marks: Mark this.\n    title: Title. By default none.\n"
        "    names: Only these names. See names.\n\nRaises:\n    UsageError: If it has no width."
    )
    misspelt: dict[str, Any] = {"widht": 4}
    with pytest.raises(TypeError, match="Drawn has no option 'widht'"):
        draw("x", **misspelt)
    with pytest.raises(UsageError, match="no width"):
        draw("x", width=0)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"width": 7, "shaded": False},
        {"names": ("a,b", "c"), "marks": ("m", "n")},
    ],
)
def test_a_command_has_the_options_and_takes_its_own_words(given: dict[str, Any]) -> None:
    found: list[Drawn] = []

    @click.command()
    @options_of(Drawn)
    def command(**options: Any) -> None:
        found.append(Drawn(**options))

    written = Drawn(**given).words()
    result = CliRunner().invoke(command, written)

    assert result.exit_code == 0, result.output
    assert vars(found[0]) == vars(Drawn(**given))
    text = CliRunner().invoke(command, ["--help"]).output
    assert "-w, --width INTEGER  Width.  [3]" in text
    assert "--title" not in text


def test_others_and_those_of_a_wider_class() -> None:
    drawn = Drawn(width=5, names=("a",))

    assert drawn.changed(width=6).words() == ["-w", "6", "--only", "a"]
    assert drawn.narrowed(Shared).words() == ["--only", "a"]
    assert drawn.words(leave_out=["names"]) == ["-w", "5"]
    assert FlameArguments(isolate=[], names=True).given == set()
    assert (time_text("1.5s"), time_text(7)) == ("1.5s", "abs:7ns")


@pytest.mark.parametrize("kind", CLASSES)
def test_every_option_says_in_a_sentence_what_it_does(kind: type[Options]) -> None:
    for name, each in kind.declared.items():
        assert each.help[0].isupper(), name
        assert each.help.endswith("."), name
        assert not (each.is_switch and each.default and not each.keyword), name
        assert bool(each.flags and not each.is_switch) == bool(each.metavar or each.choices), name
