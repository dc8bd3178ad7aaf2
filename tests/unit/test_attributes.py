from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.errors import AttributeNotFound, QuarkError, UsageError
from meantime.model.attributes import (
    ANY,
    ANY_DEPTH,
    ROOT,
    UP,
    Attributes,
    format_path,
    format_pattern,
    parse_pattern,
)

PATHS = [
    ("CPUs", "0", "Status"),
    ("CPUs", "1", "Status"),
    ("CPUs", "1", "IRQ"),
    ("Threads", "7", "Status"),
    ("*",),
    ("..", ""),
    ("a/b", "c\\"),
    ("a", "b/c\\"),
]


@pytest.fixture
def attributes() -> Attributes:
    tree = Attributes()
    for path in PATHS:
        tree.add(path)
    return tree


def texts(tree: Attributes, pattern: object) -> list[str]:
    return [tree.text(int(quark)) for quark in tree.quarks(pattern)]  # type: ignore[arg-type]


def test_missing_parents_are_created_first_and_quarks_count_up() -> None:
    tree = Attributes()

    assert [tree.add(("a", "b", "c")), tree.add(("a",)), tree.add(("a", "d"))] == [2, 0, 3]
    assert tree.path(2) == ("a", "b", "c")
    assert tree.parent(2) == 1
    assert tree.parent(0) == ROOT
    assert tree.name(3) == "d"


def test_every_path_is_found_under_its_own_quark(attributes: Attributes) -> None:
    for path in PATHS:
        quark = attributes.quark(*path)

        assert attributes.path(quark) == path
        assert attributes.find(*path) == quark
        assert attributes.quarks(list(path)).tolist() == [quark]


def test_names_differ_by_their_elements_not_their_text(attributes: Attributes) -> None:
    assert attributes.quark("a/b", "c\\") != attributes.quark("a", "b/c\\")
    assert attributes.find("a", "b", "c\\") is None


def test_many_children_are_added_at_once_and_found_again() -> None:
    tree = Attributes()
    top = tree.add(("top",))

    assert tree.add_many(["x", "y", "x"], top).tolist() == [1, 2, 1]
    assert tree.add_many(["x", "top"]).tolist() == [3, 0]


def test_a_star_is_one_level_and_two_stars_are_any(attributes: Attributes) -> None:
    assert texts(attributes, "CPUs/*/Status") == ["CPUs/0/Status", "CPUs/1/Status"]
    assert texts(attributes, "**/Status") == ["CPUs/0/Status", "CPUs/1/Status", "Threads/7/Status"]
    assert texts(attributes, [ANY_DEPTH, "Status", UP, "IRQ"]) == ["CPUs/1/IRQ"]
    assert texts(attributes, ["CPUs", ANY]) == ["CPUs/0", "CPUs/1"]
    assert texts(attributes, r"\*") == [r"\*"]
    assert texts(attributes, ["*"]) == [r"\*"]
    assert texts(attributes, [".."]) == [r"\.."]
    assert texts(attributes, "Threads/..") == []
    assert texts(attributes, "") == []
    assert texts(attributes, "CPUs/2") == []


def test_a_pattern_can_begin_below_an_attribute(attributes: Attributes) -> None:
    cpus = attributes.quark("CPUs")

    assert len(attributes.quarks("*/Status", cpus)) == 2
    assert attributes.quarks("", cpus).tolist() == [cpus]
    assert attributes.quark("0", "Status", parent=cpus) == attributes.quark("CPUs", "0", "Status")


def test_children_come_in_order_of_creation_and_descendants_in_pre_order(
    attributes: Attributes,
) -> None:
    names = attributes.names(attributes.children())
    below = [attributes.text(quark) for quark in attributes.children(0, recursive=True)]

    assert names == ["CPUs", "Threads", "*", "..", "a/b", "a"]
    assert below == ["CPUs/0", "CPUs/0/Status", "CPUs/1", "CPUs/1/Status", "CPUs/1/IRQ"]

    attributes.add(("CPUs", "2"))
    assert len(attributes.children(0)) == 3


def test_a_missing_path_is_reported_with_the_nearest_names(attributes: Attributes) -> None:
    with pytest.raises(AttributeNotFound, match=r"'CPUs/1/State'.* 'Status'") as caught:
        attributes.quark("CPUs", "1", "State")
    assert isinstance(caught.value, KeyError)
    with pytest.raises(AttributeNotFound, match="'CPUs/0/Status' has no children"):
        attributes.quark("CPUs", "0", "Status", "x")


@pytest.mark.parametrize("quark", [-2, -1, 99])
def test_a_bad_quark_is_an_error_everywhere(attributes: Attributes, quark: int) -> None:
    for ask in (attributes.name, attributes.path, attributes.text):
        with pytest.raises(QuarkError):
            ask(quark)
    if quark != ROOT:
        with pytest.raises(QuarkError):
            attributes.parent(quark)
        with pytest.raises(QuarkError):
            attributes.children(quark)
        with pytest.raises(QuarkError):
            attributes.add(("x",), quark)


def test_an_empty_path_makes_no_attribute(attributes: Attributes) -> None:
    with pytest.raises(QuarkError, match="at least one name"):
        attributes.add(())


@pytest.mark.parametrize("text", ["a//b", "/", "a/", "a*b", "***", "a\\"])
def test_a_text_that_is_not_a_pattern_is_rejected(text: str) -> None:
    with pytest.raises(UsageError):
        parse_pattern(text)


@given(st.lists(st.text(alphabet="ab*/\\.", min_size=1), min_size=1))
def test_the_text_form_of_a_path_means_that_path(path: list[str]) -> None:
    assert parse_pattern(format_path(path)) == tuple(path)
    assert parse_pattern(format_pattern([*path, ANY, ANY_DEPTH, UP])) == (
        *path,
        ANY,
        ANY_DEPTH,
        UP,
    )


def test_a_name_that_text_cannot_say_is_refused_in_a_text_pattern() -> None:
    with pytest.raises(UsageError, match="''"):
        format_pattern(["a", ""])


def test_the_root_is_its_own_parent_and_the_start_of_paths(attributes: Attributes) -> None:
    assert attributes.parent(ROOT) == ROOT
    assert attributes.find() == attributes.quark() == ROOT
    assert attributes.find("CPUs", parent=None) == attributes.find("CPUs", parent=ROOT)
    assert attributes.find("0", parent=attributes.quark("CPUs")) == attributes.quark("CPUs", "0")


def test_children_are_right_while_the_tree_grows() -> None:
    random = Random(3)  # noqa: S311 - the same tree each time
    attributes = Attributes()
    below: dict[int, list[int]] = {}
    for index in range(4000):
        parent = random.randrange(-1, len(attributes))
        below.setdefault(parent, []).append(attributes.add((str(index),), parent))
        asked = random.randrange(-1, len(attributes))

        assert attributes.children(asked).tolist() == below.get(asked, [])
