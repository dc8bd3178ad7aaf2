"""`dataclass` of the standard library, for modules that commands load before their work.

Before Python 3.13 the standard one compiles up to seven functions for each class: with fifty
classes, a sixth of a short command. Here only `__init__` is compiled, and all classes share the
other methods. What `dataclasses` offers beside the decorator works as usual.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass

    Fields = tuple[dataclasses.Field[Any], ...]

__all__ = ["dataclass"]

_MISSING = dataclasses.MISSING


class _Factory:
    """The default of a parameter whose value a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


if not TYPE_CHECKING:
    # Hidden from type checkers, which know the standard one.

    def dataclass(
        cls: type | None = None,
        /,
        *,
        repr: bool = True,  # noqa: A002 - as in the standard library
        eq: bool = True,
        frozen: bool = False,
        slots: bool = False,
    ) -> Any:
        """Return the class with the methods that `dataclasses.dataclass` adds."""

        def wrap(cls: type) -> type:
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
            methods = _methods(made, shown=repr, compared=eq, frozen=frozen, slots=slots)
            for name, method in methods.items():
                if name not in vars(cls):
                    setattr(made, name, method)
            return made

        return wrap if cls is None else wrap(cls)


def _methods(
    cls: type, *, shown: bool, compared: bool, frozen: bool, slots: bool
) -> dict[str, Any]:
    fields = dataclasses.fields(cls)
    methods: dict[str, Any] = {"__init__": _init(cls, fields, frozen=frozen)}
    if shown:
        methods["_shown"] = tuple(field.name for field in fields if field.repr)
        methods["__repr__"] = _repr
    if compared:
        names = [field.name for field in fields if field.compare]
        # of one name alone it would return no tuple
        methods["_compared"] = staticmethod(attrgetter(*names, *names[:1]) if names else type)
        methods["__eq__"] = _eq
        methods["__hash__"] = _hash if frozen else None
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        if slots:
            methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
    return methods


def _init(cls: type, fields: Fields, *, frozen: bool) -> Any:
    """Compile a function with a parameter for each field."""
    known: dict[str, Any] = {"_factory": _FACTORY, "_set": object.__setattr__}
    known["__name__"] = cls.__module__
    positional, by_name, body = ["self"], list[str](), list[str]()
    for number, field in enumerate(fields):
        name, value, default = field.name, field.name, ""
        if field.default_factory is not _MISSING:
            known[f"_make{number}"] = field.default_factory
            value, default = f"_make{number}()", "=_factory"
            if field.init:
                value = f"{value} if {name} is _factory else {name}"
        elif field.default is not _MISSING:
            known[f"_default{number}"] = field.default
            default = f"=_default{number}"
            value = name if field.init else default[1:]
        elif not field.init:
            continue
        if field.init:
            (by_name if field.kw_only else positional).append(name + default)
        body.append(f"_set(self,{name!r},{value})" if frozen else f"self.{name}={value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ",".join([*positional, "*", *by_name] if by_name else positional)
    lines = "\n ".join(body or ["pass"])
    exec(f"def __init__({parameters}):\n {lines}\n", known)  # noqa: S102 - as in the standard library
    init = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields if field.init}
    init.__annotations__["return"] = None
    return init


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._shown)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _refuse_to_set(_self: object, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        # those of frozen objects are set like this, too
        object.__setattr__(self, field.name, value)
