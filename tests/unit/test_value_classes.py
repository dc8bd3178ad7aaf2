"""Our `dataclass` makes what that of the standard library makes."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from dataclasses import KW_ONLY, field  # noqa: TC003 - the decorator looks it up
from typing import Any, ClassVar

import pytest

from meantime import value_classes

Decorator = Any


def value(decorator: Decorator, **options: bool) -> Any:
    """Return a class with every kind of field."""

    @decorator(**options)
    class Value:
        """A class."""

        kind: ClassVar[str] = "of all"
        first: int
        second: str = "two"
        many: list[int] = field(default_factory=list)
        hidden: int = field(default=3, repr=False, compare=False)
        _: KW_ONLY
        named: int = 4
        counted: int = field(init=False, default=5)
        held: list[int] = field(init=False, default_factory=list)

    return Value


def empty(decorator: Decorator, **options: bool) -> Any:
    """Return a class that checks itself and has no fields."""

    @decorator(**options)
    class Empty:
        """A class."""

        def __post_init__(self) -> None:
            made.append(type(self).__name__)

    return Empty


made: list[str] = []
OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False, "repr": False},
]


def shown(instance: object) -> str:
    return (
        repr(instance).partition("(")[2] if type(instance).__repr__ is not object.__repr__ else ""
    )


@pytest.mark.parametrize("options", OPTIONS)
def test_classes_are_like_those_of_the_standard_library(options: dict[str, bool]) -> None:
    ours, standard = (
        value(each, **options) for each in (value_classes.dataclass, dataclasses.dataclass)
    )

    assert str(inspect.signature(ours)) == str(inspect.signature(standard))
    for arguments, by_name in [((1,), {}), ((1, "b", [2], 7), {"named": 8}), ((1, "two", []), {})]:
        one, other = ours(*arguments, **by_name), standard(*arguments, **by_name)
        assert dataclasses.asdict(one) == dataclasses.asdict(other)
        assert shown(one) == shown(other)
        assert (one == ours(*arguments, **by_name)) is (other == standard(*arguments, **by_name))
        assert (one == ours(2)) is (other == standard(2)) is False
        assert dataclasses.replace(one, first=9).first == 9
        assert one.many is not ours(1).many
        assert hasattr(one, "__dict__") is hasattr(other, "__dict__")
    assert (ours.__hash__ is None) is (standard.__hash__ is None)
    with pytest.raises(TypeError, match="first"):
        ours()
    with pytest.raises(TypeError, match="third"):
        ours(1, third=3)


@pytest.mark.parametrize("options", OPTIONS)
def test_only_what_is_not_frozen_can_be_changed(options: dict[str, bool]) -> None:
    one = value(value_classes.dataclass, **options)(1)

    if options.get("frozen"):
        with pytest.raises(dataclasses.FrozenInstanceError, match="'first'"):
            one.first = 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="'first'"):
            del one.first
    else:
        one.first = 2
    assert one.first == (1 if options.get("frozen") else 2)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_class_without_fields_checks_itself(options: dict[str, bool]) -> None:
    made.clear()
    one = empty(value_classes.dataclass, **options)

    assert (one() == one()) is options.get("eq", True)
    assert made == ["Empty", "Empty"]


@value_classes.dataclass(frozen=True, slots=True)
class Kept:
    """A frozen class that pickle finds."""

    first: int
    second: tuple[int, ...] = ()


def test_frozen_objects_are_hashed_by_value_and_pickled() -> None:
    kept = Kept(1, (2, 3))

    assert pickle.loads(pickle.dumps(kept)) == kept  # noqa: S301 - made here
    assert len({kept, Kept(1, (2, 3)), Kept(1)}) == 2
    assert dataclasses.is_dataclass(Kept)


def test_methods_of_the_class_itself_are_kept() -> None:
    @value_classes.dataclass(slots=True)
    class Own:
        """A class with methods of its own."""

        first: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]  # as Python itself does it

    assert repr(Own(1)) == "own"
    assert Own(1) == Own(2)
