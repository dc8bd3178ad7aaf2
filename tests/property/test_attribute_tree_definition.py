"""The attribute tree, against dictionaries of paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.errors import HistoryClosedError, QuarkError
from meantime.model.attributes import ANY, ANY_DEPTH, UP, Attributes, Path, PathTable
from meantime.model.columns import TextTable

if TYPE_CHECKING:
    from meantime.model.attributes import Wildcard

names = st.sampled_from(["a", "b", "é", "", "x" * 70, "\ud800"])
paths = st.lists(st.lists(names, min_size=1, max_size=4).map(tuple), max_size=30)
patterns = st.lists(names | st.sampled_from([ANY, ANY_DEPTH, UP]), max_size=4)


def tree_of(added: list[Path]) -> tuple[Attributes, dict[Path, int]]:
    """Return a tree, and what its quarks are by definition."""
    attributes, quarks = Attributes(), dict[Path, int]()
    for raw in added:
        path = tuple(name.replace("\ud800", "\ufffd") for name in raw)
        for end in range(1, len(path) + 1):
            quarks.setdefault(path[:end], len(quarks))
        assert attributes.add(raw) == quarks[path]
    # together: by names that are the same objects as those of the path before
    found = Attributes().add_paths(added).tolist()
    assert found == [attributes.find(*path) for path in added]
    return attributes, quarks


def children(quarks: dict[Path, int], parent: Path) -> list[Path]:
    return [path for path in quarks if path[:-1] == parent]


def below(quarks: dict[Path, int], top: Path) -> list[Path]:
    return [each for child in children(quarks, top) for each in (child, *below(quarks, child))]


def matches(quarks: dict[Path, int], pattern: list[str | Wildcard]) -> list[int]:
    found: list[Path] = [()]
    for element in pattern:
        step: list[Path] = []
        for path in found:
            if element is ANY:
                step += children(quarks, path)
            elif element is ANY_DEPTH:
                step += [path, *below(quarks, path)]
            elif element is UP:
                step.append(path[:-1])
            else:
                child = (*path, str(element).replace("\ud800", "\ufffd"))
                step += [child] if child in quarks else []
        found = list(dict.fromkeys(step))
    return [quarks[path] for path in found if path]


@given(paths, patterns, st.integers(0, 30))
def test_a_tree_finds_what_its_definition_says(
    added: list[Path], pattern: list[str | Wildcard], cut: int
) -> None:
    attributes, quarks = tree_of(added)
    first = min(cut, len(attributes))
    read = Attributes()
    known = attributes.columns()
    read.extend(known[0][:0], known[1][:0], known[2][:0], b"")
    for begin, end in ((0, first), (first, len(attributes))):
        part = Attributes()
        for path in list(quarks)[:end]:
            part.add(path)
        read.extend(*part.columns(begin))

    for tree in (attributes, read, attributes.copy()):
        assert len(tree) == len(quarks)
        assert tree.quarks(pattern).tolist() == matches(quarks, pattern)
        for path, quark in quarks.items():
            assert tree.path(quark) == path
            assert tree.find(*path) == quark
            assert tree.children(quark).tolist() == [quarks[p] for p in children(quarks, path)]
            assert tree.children(quark, recursive=True).tolist() == [
                quarks[p] for p in below(quarks, path)
            ]
        assert tree.find("no", "such") is None
        tree.check_unique()


@given(paths, patterns, st.integers(0, 30))
def test_the_attributes_so_far_stay_the_same_while_others_are_added(
    added: list[Path], pattern: list[str | Wildcard], cut: int
) -> None:
    quarks = tree_of(added)[1]
    before = dict([*quarks.items()][:cut])
    attributes = Attributes()
    for path in before:
        attributes.add(path)
    then = attributes.so_far()
    for path in quarks:
        attributes.add(path)

    for tree in (then, then.copy()):
        assert (len(tree), list(tree)) == (len(before), list(before.values()))
        assert tree.quarks(pattern).tolist() == matches(before, pattern)
        assert [part.tolist() for part in tree.columns()[:3]] == [
            part.tolist() for part in tree_of(list(before))[0].columns()[:3]
        ]
        for path, quark in quarks.items():
            assert tree.find(*path) == before.get(path)
            if path in before:
                assert tree.children(quark).tolist() == [before[p] for p in children(before, path)]
            else:
                with pytest.raises(QuarkError):
                    tree.path(quark)
    with pytest.raises(HistoryClosedError):
        then.add(("new",))


def test_children_named_of_many_are_found_by_hashing() -> None:
    attributes = Attributes()
    for parent in range(20):
        for child in range(parent):
            attributes.add((str(parent), str(child)))

    found = attributes.quarks("*/11").tolist()

    assert [attributes.text(quark) for quark in found] == [f"{n}/11" for n in range(12, 20)]


def test_a_long_name_that_is_shared_in_a_file_is_rejected() -> None:
    parents, codes, sizes = (np.array(each, np.uint64) for each in ([1, 1], [0, 1], [65]))
    with pytest.raises(ValueError, match="a long name of an attribute is repeated"):
        Attributes().extend(parents, codes, sizes, b"x" * 65)


@given(paths)
def test_many_paths_are_added_as_one_by_one(added: list[Path]) -> None:
    tree, quarks = tree_of(added)
    attributes = Attributes()

    assert attributes.add_paths(added).tolist() == [tree.add(path) for path in added]
    assert len(attributes) == len(quarks)


@given(
    st.lists(names.filter(lambda name: name != "\ud800"), min_size=1, max_size=6),
    st.lists(st.none() | names.filter(lambda name: name != "\ud800"), min_size=1, max_size=4),
    st.lists(st.tuples(*[st.integers(0, 5)] * 4), max_size=30),
    paths,
)
def test_paths_in_columns_are_added_as_one_by_one(
    found: list[str], shared: list[str | None], rows: list[tuple[int, ...]], added: list[Path]
) -> None:
    """A name is shared by all rows, or the one that each row has a code of."""
    expected, _ = tree_of(added)
    attributes = expected.copy()
    codes = np.array(rows, np.int32).reshape(-1, 4).T.copy() % np.int32(len(found))
    # the last level is a column always
    levels = [name if name is not None else codes[i] for i, name in enumerate(shared[:-1])]

    quarks = attributes.add_columns(TextTable(found), (*levels, codes[3]))

    whole = [
        (
            *(found[codes[i][row]] if each is None else each for i, each in enumerate(shared[:-1])),
            found[codes[3][row]],
        )
        for row in range(len(rows))
    ]
    assert quarks.tolist() == [expected.add(path) for path in whole]
    assert [*map(attributes.path, attributes)] == [*map(expected.path, expected)]


def test_columns_that_are_not_of_the_texts_are_rejected() -> None:
    texts, codes = TextTable(["a", ""]), np.array([0, 1], np.int32)
    for levels in ((codes, codes[:1]), (codes + 1,), (codes - 1,)):
        with pytest.raises(IndexError):
            Attributes().add_columns(texts, levels)
    with pytest.raises(ValueError, match="too many names"):
        Attributes().add_columns(texts, (codes,) * 9)


@given(paths, st.lists(paths, max_size=3))
def test_a_tree_is_added_as_its_paths(there: list[Path], parts: list[list[Path]]) -> None:
    """In parts, as while a trace is read, to attributes that are there already."""
    expected, _ = tree_of(there)
    attributes, other = expected.copy(), Attributes()
    quarks = np.empty(0, np.int32)
    for part in parts:
        other.add_paths(part)
        quarks = attributes.add_tree(other, quarks)
        assert quarks.tolist() == [expected.add(other.path(quark)) for quark in other]

    assert [*map(attributes.path, attributes)] == [*map(expected.path, expected)]
    assert all(attributes.find(*expected.path(quark)) == quark for quark in expected)
    attributes.check_unique()


@given(paths, st.lists(st.tuples(st.sampled_from(["code", "codes", "append"]), paths)))
def test_paths_have_the_codes_of_a_list(before: list[Path], steps: list[tuple[str, Any]]) -> None:
    table = PathTable(before)
    listed = [tuple(name.replace("\ud800", "\ufffd") for name in path) for path in before]
    for how, added in steps:
        part = [tuple(name.replace("\ud800", "\ufffd") for name in path) for path in added]
        if how == "append":
            table += added
            listed += part
            continue
        for path in part:
            if path not in listed:
                listed.append(path)
        found = [*map(table.code, added)] if how == "code" else table.codes(added).tolist()
        assert found == [*map(listed.index, part)]

    assert [*table] == listed == table[:]
    assert len(table) == len(listed)
    for code, path in enumerate(listed):
        assert table[code] == path == table[code - len(listed)]
    with pytest.raises(IndexError):
        table[len(listed)]


def test_what_is_no_path_gets_no_code() -> None:
    table = PathTable()
    for path in ((), ("a", 1)):
        with pytest.raises(QuarkError):
            table.code(path)  # type: ignore[arg-type]  # readers of other packages may do so
        with pytest.raises(QuarkError):
            table.append(path)  # type: ignore[arg-type]  # as above
    assert not table


@given(paths.filter(bool), st.lists(st.integers(0, 3), min_size=30, max_size=30))
def test_numbered_children_are_added_as_one_by_one(added: list[Path], counts: list[int]) -> None:
    tree, _ = tree_of(added)
    attributes = tree.copy()
    parents = np.array([tree.add(path) for path in added], np.int32)
    below = np.arange(len(added)) % 2 == 1

    found = attributes.add_numbered(
        parents, np.array(counts[: len(added)]), name="Stack", below=below
    )

    expected = []
    for parent, is_below, count in zip(parents.tolist(), below, counts, strict=False):
        above = tree.add(("Stack",), parent) if is_below else parent
        expected += [tree.add((str(number),), above) for number in range(count)]
    assert found.tolist() == expected
    assert len(attributes) == len(tree)


@given(
    st.lists(
        st.sampled_from(["Threads", "7", "-7", "07", "10", "a", "-", "9z", "ab"]), unique=True
    ),
    st.lists(st.integers(-1, 1), min_size=9, max_size=9),
)
def test_ranks_are_by_key_then_number_then_name(found: list[str], given_keys: list[int]) -> None:
    attributes = Attributes()
    quarks = attributes.add_many(found)
    sort_keys = np.array(given_keys[: len(found)], np.int64)

    ranks = attributes.ranks(quarks, sort_keys, first="Threads")

    def key(row: int) -> tuple[int, bool, int, str]:
        digits = found[row].removeprefix("-")
        number = int(found[row]) if digits.isdecimal() else 0
        return given_keys[row], found[row] != "Threads", number, found[row]

    assert ranks is not None
    assert np.argsort(ranks).tolist() == sorted(range(len(found)), key=key)


@pytest.mark.parametrize("name", ["1" * 19, "\u0664\u0662"])
def test_numbers_that_columns_cannot_hold_have_no_rank(name: str) -> None:
    attributes = Attributes()
    quarks = attributes.add_many([name])

    assert attributes.ranks(quarks, np.zeros(1, np.int64), first="Threads") is None
