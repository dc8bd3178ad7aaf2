"""Options, each declared once: as a field of a class, from which everything about it follows.

`option` declares a field: its names on the command line, its value there, and what it does. From it
follow a keyword of a function and its documentation, the option of a command and its help, a row of
docs/reference/commands.md, and the words of the commands that pages show.
"""

from __future__ import annotations

import os
import re
from inspect import Parameter, Signature, cleandoc, get_annotations, signature
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    ParamSpec,
    TypeVar,
    cast,
    dataclass_transform,
)

from meantime.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Self

    from meantime.model.units import Time

__all__ = [
    "FILTER",
    "IDLE",
    "LENIENT",
    "PROVIDER",
    "STRICT",
    "WHOLE",
    "Option",
    "Options",
    "Range",
    "file_or_range",
    "keywords_of",
    "keywords_of_pair",
    "names_option",
    "option",
    "time_text",
    "whole_number",
]

_O = TypeVar("_O", bound="Options")
_S = TypeVar("_S")
_T = TypeVar("_T")
_R = TypeVar("_R")
_P = ParamSpec("_P")


class Option:
    """What is declared about an option.

    Attributes:
        flags: Its names on the command line, that of messages first; none is not on it.
        default: Its value if it is not given.
        help: What it does, in a sentence.
        more: What the documents say besides.
        keyword: What the keyword does, if that is the opposite.
        metavar: What its value is called in the help.
        choices: The values that it may have.
        parse: Returns the value in a text; None takes the text.
        write: Returns the text of a value.
        absent: What is done without it, if that is not its default.
        repeated: Whether it may be given several times.
    """

    flags: tuple[str, ...]
    help: str
    default: Any = None
    more: str = ""
    keyword: str = ""
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    parse: Callable[[str], Any] | None = None
    write: Callable[[Any], str] = staticmethod(str)
    absent: str = ""
    repeated: bool = False

    def __init__(self, flags: tuple[str, ...], about: dict[str, Any]) -> None:
        self.flags = flags
        vars(self).update(about)

    @property
    def is_switch(self) -> bool:
        """Whether it has no value on the command line: it is given, or not."""
        return isinstance(self.default, bool)

    @property
    def without(self) -> str:
        """What is done if it is not given, in words; empty if nothing is."""
        if self.absent or self.is_switch or self.default in {None, ()}:
            return self.absent
        return self.write(self.default)

    @property
    def documented(self) -> str:
        """What the documentation of the keyword says."""
        without = f"By default {self.without}." if self.without else ""
        text = self.keyword or " ".join(each for each in (self.help, self.more, without) if each)
        # of links of the documents, their text
        return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text) if "](" in text else text


def option(*flags: str, **about: Any) -> Any:
    """Declare a field of a class of options; the arguments are those of `Option`."""
    return Option(flags, about)


class _Computed:
    """An attribute of a class that is computed when it is read, as few programs do."""

    def __init__(self, compute: Callable[[type[Options]], Any]) -> None:
        self._compute = compute

    def __get__(self, _instance: object, kind: type[Options]) -> Any:
        return self._compute(kind)


def time_text(time: Time) -> str:
    """Return the text of a time on the command line, where numbers count from the beginning."""
    if isinstance(time, str):
        return time
    # a datetime, whose module few commands need, or an integer, maybe of NumPy
    isoformat = getattr(time, "isoformat", None)
    return f"abs:{time}ns" if isoformat is None else str(isoformat())


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Options:
    """The base of classes of options: for type checkers a dataclass, whose fields are keywords.

    It is not one, since a dataclass compiles its methods whenever it is imported, and commands
    import these for their help.

    >>> class Size(Options):
    ...     width: int = option("--width", default=3, help="Width.")
    >>> Size(width=4).width, Size().width, Size(width=4).words()
    (4, 3, ['--width', '4'])
    """

    declared: ClassVar[dict[str, Option]] = {}
    __signature__: ClassVar[_Computed] = _Computed(lambda kind: Signature(_parameters(kind)))

    def __init_subclass__(cls) -> None:
        own = {name: each for name, each in vars(cls).items() if isinstance(each, Option)}
        inherited: dict[str, Option] = {}
        for base in cls.__bases__:
            inherited |= getattr(base, "declared", {})
        # its own are first in the help
        cls.declared = {**own, **inherited, **own}
        described: Any = cls
        text = cls.__doc__ or ""
        described.__doc__ = _Computed(lambda kind: _with_options(text, kind))

    def __init__(self, **given: Any) -> None:
        for name, each in self.declared.items():
            setattr(self, name, given.pop(name, each.default))
        for name in given:
            raise TypeError(f"{type(self).__name__} has no option {name!r}")
        for kind in reversed(type(self).__mro__):
            if check := vars(kind).get("_check"):
                check(self)

    @property
    def given(self) -> set[str]:
        """The names of the options that are not at their defaults."""
        values = ((name, getattr(self, name), each.default) for name, each in self.declared.items())
        # names may be given as a list, too
        return {name for name, value, usual in values if value != usual and (value or usual != ())}

    def changed(self, **given: Any) -> Self:
        """Return the options with other values of some."""
        return self.narrowed(type(self), **given)

    def narrowed(self, kind: type[_O], **given: Any) -> _O:
        """Return the options of a class, as here where they are not given."""
        return kind(
            **{name: getattr(self, name) for name in kind.declared if name not in given}, **given
        )

    def words(
        self, leave_out: Collection[str] = (), only: Collection[str] | None = None
    ) -> list[str]:
        """Return the options that are not at their defaults, as words of a command."""
        given = self.given.difference(leave_out)
        if only is not None:
            given &= set(only)
        found: list[str] = []
        for name, each in self.declared.items():
            if not each.flags or name not in given:
                continue
            value = getattr(self, name)
            if each.is_switch:
                found.append(each.flags[0])
                continue
            values: Iterable[Any] = value if each.repeated else (value,)
            for one in values:
                found += [each.flags[0], each.write(one)]
        return found


class Range(Options):
    """A range of time."""

    start: Time | None = option(
        "--from", metavar="TIME", write=time_text, help="Start of the range."
    )
    end: Time | None = option("--to", metavar="TIME", write=time_text, help="End of the range.")


def keywords_of(
    kind: Callable[_P, Options],
) -> Callable[[Callable[Concatenate[_S, ...], _R]], Callable[Concatenate[_S, _P], _R]]:
    """Return a decorator for a function whose keywords are the options of a class.

    The function itself takes `**given` and makes the options of it. For type checkers, `help` and
    the documents it has the keywords of the class.
    """

    def decorate(
        function: Callable[Concatenate[_S, ...], _R],
    ) -> Callable[Concatenate[_S, _P], _R]:
        return cast("Callable[Concatenate[_S, _P], _R]", _with_keywords(function, kind))

    return decorate


def keywords_of_pair(
    kind: Callable[_P, Options],
) -> Callable[[Callable[Concatenate[_S, _T, ...], _R]], Callable[Concatenate[_S, _T, _P], _R]]:
    """Return what `keywords_of` does, for a function of two arguments."""

    def decorate(
        function: Callable[Concatenate[_S, _T, ...], _R],
    ) -> Callable[Concatenate[_S, _T, _P], _R]:
        return cast("Callable[Concatenate[_S, _T, _P], _R]", _with_keywords(function, kind))

    return decorate


def _with_keywords(function: Callable[..., Any], kind: Callable[..., Options]) -> Any:
    declared = cast("type[Options]", kind)
    own = signature(function)
    arguments = [each for each in own.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    described: Any = function
    described.__signature__ = own.replace(parameters=[*arguments, *_parameters(declared)])
    described.__doc__ = _with_options(function.__doc__ or "", declared)
    return function


def _parameters(kind: type[Options]) -> list[Parameter]:
    """Return the parameters of a class of options."""
    types = {
        name: each
        for base in reversed(kind.__mro__)
        for name, each in get_annotations(base).items()
    }
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=each.default, annotation=types[name])
        for name, each in kind.declared.items()
    ]


def _with_options(text: str, kind: type[Options]) -> str:
    """Return a docstring with all options: in place of `**given`, or as attributes."""
    lines = "\n".join(f"    {name}: {each.documented}" for name, each in kind.declared.items())
    before, given, after = cleandoc(text).partition("    **given:")
    if given:
        _, _, rest = after.partition("\n")
        return f"{before}{lines}\n{rest}"
    before, raised, after = before.partition("\n\nRaises:")
    return f"{before}\n\nAttributes:\n{lines}{raised}{after}"


def whole_number(name: str) -> Callable[[str], int]:
    """Return what parses a number without a sign, with the original statemap's message."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"\+?[0-9]+", text):
            raise UsageError(f"{name} must be an integer")
        return int(text)

    return parse


def names_option(flag: str, **about: Any) -> Any:
    r"""Declare an option that lists names, separated by commas; `\,` is a comma in a name."""

    def parse(text: str) -> tuple[str, ...]:
        found = re.split(r"(?<!\\),", text)
        names = tuple(name.replace("\\,", ",") for name in found if name)
        if not names:
            raise UsageError(f"{flag} {text!r} contains no name")
        return names

    def write(names: str | Sequence[str]) -> str:
        each = (names,) if isinstance(names, str) else names
        return ",".join(name.replace(",", "\\,") for name in each)

    return option(flag, default=(), metavar="NAMES", parse=parse, write=write, **about)


def file_or_range(flag: str) -> Callable[[str], str | tuple[str, str]]:
    """Return what parses the path of a file that exists, or two times."""

    def parse(text: str) -> str | tuple[str, str]:
        if os.path.exists(text):  # noqa: PTH110 - pathlib is slow to import
            return text
        first, dots, last = text.partition("..")
        if not (dots and first and last):
            raise UsageError(
                f"{flag} {text!r}: write two times, such as 10s..20s, or the path of another trace"
            )
        return first, last

    return parse


# Those of several classes and commands.
FILTER: Any = option(
    "-f",
    "--filter",
    metavar="PATTERN",
    help="Only rows with this name, or whose name contains a match of this regular expression.",
)
WHOLE: Any = option(
    "--whole",
    default=False,
    help="Count the full duration of spans that cross the range's edges.",
)
EXACT: Any = option(
    "--exact",
    default=False,
    help="Read every duration for exact quantiles, however many there are.",
    more="Otherwise the quantiles of states that have more than 4,194,304 intervals together are"
    " within 0.4 % of a duration of that rank, and the heading says so. All other figures are"
    " always exact.",
)
IDLE: Any = option("--idle", default=False, help="Count samples of idle CPUs, too.")
PROVIDER: Any = option(
    "--provider",
    metavar="FILE",
    write=os.fspath,
    help="TOML or Python file that defines how events become states; none: leave out the states"
    " that follow from a scheduler's events.",
    keyword="Derives states from the events of a path's trace, as in `meantime.open`; the history"
    " is kept in the cache.",
)
LENIENT: Any = option("--lenient", default=False, help="Skip and count what cannot be read.")
STRICT: Any = option("--strict", default=False, help="Fail if the input has any anomaly.")
