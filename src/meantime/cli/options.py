"""Options that several commands share, and errors for options that do not apply."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from meantime.errors import UsageError
from meantime.options import FILTER, LENIENT, PROVIDER, STRICT, Range
from meantime.stores import store_url

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from meantime.model.bounded import Limit
    from meantime.options import Option, Options

__all__ = [
    "Documented",
    "Once",
    "file_argument",
    "filter_option",
    "force_option",
    "format_options",
    "given",
    "hosts_options",
    "input_options",
    "json_option",
    "lenient_option",
    "limit_option",
    "of_options",
    "offset_option",
    "once",
    "options_of",
    "output_option",
    "provider_option",
    "range_options",
    "reading_options",
    "reject",
    "session_option",
    "strict_option",
    "zone_option",
]

F = TypeVar("F", bound="Callable[..., object] | click.Command")


class Documented(click.Option):
    """An option about which the reference says more than the help."""

    def __init__(self, param_decls: Sequence[str], more: str = "", **attributes: Any) -> None:
        self.more = more
        super().__init__(param_decls, **attributes)


class Once(Documented):
    """An option that may be given only once: a repetition is an error."""

    def __init__(self, param_decls: Sequence[str], **attributes: Any) -> None:
        self.absent: Any = attributes.pop("default", None)
        super().__init__(param_decls, multiple=True, default=(), **attributes)

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Return the only value given, or the default."""
        values = super().type_cast_value(ctx, value)
        if len(values) > 1:
            name = self.opts[-1].lstrip("-")
            raise click.UsageError(f"Option '{name}' given more than once", ctx)
        if self.required and not values:
            raise click.MissingParameter(ctx=ctx, param=self)
        return values[0] if values else self.absent


def once(*names: str, **attributes: Any) -> Callable[[F], F]:
    """Return a decorator for an option with one value that may be given only once."""
    return click.option(*names, cls=Once, **attributes)


def options_of(kind: type[Options]) -> Callable[[F], F]:
    """Return a decorator for the options of a class, which are then keywords of the function."""

    def add(function: F) -> F:
        for name, each in reversed(kind.declared.items()):
            if each.flags:
                function = _declared_option(name, each)(function)
        return function

    return add


def _declared_option(name: str, each: Option) -> Callable[[F], F]:
    text = f"{each.help} Repeatable." if each.repeated else each.help
    text = f"{text}  [{each.without}]" if each.without else text
    about: dict[str, Any] = {"help": text, "more": each.more}
    if each.is_switch:
        about |= {"is_flag": True, "default": each.default, "flag_value": not each.default}
        return click.option(*each.flags, name, cls=Documented, **about)
    about["type"] = click.Choice(each.choices) if each.choices else each.parse
    if each.metavar == "FILE" and each.parse is None:
        about["type"] = click.Path()
    about["metavar"] = each.metavar
    if each.repeated:
        return click.option(*each.flags, name, cls=Documented, multiple=True, **about)
    return once(*each.flags, name, default=each.default, **about)


def file_argument(name: str, metavar: str, **attributes: Any) -> Callable[[F], F]:
    """Return a decorator for an argument whose value a shell completes as a file name."""
    return click.argument(name, metavar=metavar, type=_File(), **attributes)


class _File(click.Path):
    """A path; of a URL, what may be printed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        return store_url(super().convert(value, param, ctx))


def input_options(function: F) -> F:
    """Add the options of `format_options`, and those that describe the columns of a table or log.

    `cli.inputs.mapped` returns a file with what was given.
    """
    function = format_options(function)
    columns = once(
        "--columns",
        metavar="ROLE=NAME,...",
        expose_value=False,
        callback=_keep,
        help="What columns of a table or log are: time, start, end, duration, entity, state, name.",
    )
    pair = click.option(
        "--pair",
        multiple=True,
        metavar="BEGIN:END,...",
        expose_value=False,
        callback=_keep,
        help="Make spans of these events of a log. Repeatable.",
    )
    # some commands group by something with --by
    names = ("--pair-by",) if "--by" in _options_of(function) else ("--pair-by", "--by")
    by = click.option(
        *names,
        "pair_by",
        multiple=True,
        metavar="FIELD,...",
        expose_value=False,
        callback=_keep,
        help="Fields that are equal in begin and end of a --pair.",
    )
    pattern = once(
        "--pattern",
        # a filter is the `pattern` of a command
        "line_pattern",
        metavar="REGEX",
        expose_value=False,
        callback=_keep,
        help="Fields of a line of text: a regular expression with groups (?P<NAME>...).",
    )
    return columns(pair(by(pattern(function))))


def format_options(function: F) -> F:
    """Add the options that name the format, and say how its contents are read."""
    name = once(
        "--format",
        metavar="NAME",
        expose_value=False,
        callback=_keep,
        help="Format of the input, as `meantime formats` lists it.  [recognised by its content]",
    )
    include = once(
        "--include",
        type=click.Choice(["env"]),
        expose_value=False,
        callback=_keep,
        help="Copy command lines, environment variables and headers of requests too.",
    )
    repair = click.option(
        "--repair-clocks",
        is_flag=True,
        expose_value=False,
        callback=_keep,
        help="Shift services of a distributed trace whose clocks differ from their callers'.",
    )
    paths = click.option(
        "--allow-paths",
        is_flag=True,
        expose_value=False,
        callback=_keep,
        help="Open histories outside of the folder of a .mtj file that refers to them.",
    )
    urls = click.option(
        "--allow-urls",
        is_flag=True,
        expose_value=False,
        callback=_keep,
        help="Open URLs that a .mtj file refers to, also in other stores than its own.",
    )
    memory = once(
        "--memory",
        metavar="SIZE",
        expose_value=False,
        callback=_keep,
        help="What a compressed file may expand to, and its objects take, such as 16G.",
    )
    confined = click.option(
        "--confined",
        is_flag=True,
        expose_value=False,
        callback=_keep,
        help="Read files of someone else: in a process without other files, network, and much"
        " memory.",
    )
    return name(include(repair(paths(urls(memory(confined(_confinable(function))))))))


def _confinable(function: F) -> F:
    """Return what runs a command in a process that is confined, if that was asked for."""

    @wraps(function)
    def run(*arguments: Any, **given: Any) -> Any:
        context = click.get_current_context()
        if context.meta.get("meantime.confined"):
            from meantime.cli.confined import go_on_confined  # noqa: PLC0415 - on request

            go_on_confined(context)
        return function(*arguments, **given)

    return cast("F", run)


def _keep(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Keep a value in the context, for `cli.inputs.mapped`."""
    if value:
        context.meta[f"meantime.{option.name}"] = value


def _options_of(function: Callable[..., object] | click.Command) -> set[str]:
    options: list[click.Parameter] = getattr(function, "__click_params__", [])
    return {name for option in options for name in option.opts}


def output_option(metavar: str, text: str, **attributes: Any) -> Callable[[F], F]:
    """Return a decorator for the option that names the output."""
    return once("-o", "--output", metavar=metavar, type=_File(), help=text, **attributes)


def range_options(function: F) -> F:
    """Add the options for a range of time."""
    begin = _declared_option("from_", Range.declared["start"])
    end = _declared_option("to", Range.declared["end"])
    return begin(end(zone_option(function)))


def zone_option(function: F) -> F:
    """Add the option for the time zone in which dates are read and printed."""
    return once(
        "--zone",
        metavar="NAME",
        expose_value=False,
        callback=_use_zone,
        help="Time zone of dates, such as Europe/Berlin.  [UTC]",
        more="As [above](#commands).",
    )(function)


def _use_zone(context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        _keep(context, option, value)
        from meantime.model.extent import in_zone  # noqa: PLC0415 - few commands name a zone

        context.with_resource(in_zone(value))


def limit_option(table: int | None = 50) -> Callable[[F], F]:
    """Return a decorator for the most rows of an answer, which `cli.answers` applies.

    Args:
        table: How many rows of each table are printed without it; None is all, also of JSON.
    """
    from meantime.model.bounded import ROWS, limit_of  # noqa: PLC0415 - pictures have no rows

    usual = "all" if table is None else str(ROWS)
    if table not in {None, ROWS}:
        usual = f"{table}; of JSON {ROWS}"

    def keep(context: click.Context, option: click.Parameter, value: Limit | None) -> None:  # noqa: ARG001 - click's signature
        context.meta["meantime.limit"] = value, table

    return once(
        "-n",
        "--limit",
        "limit",
        metavar="N|SIZE",
        type=limit_of,
        expose_value=False,
        callback=keep,
        help=f"Most rows of each list, or a size of the JSON such as 100kB; 0 for all.  [{usual}]",
    )


def session_option(function: F) -> F:
    """Add the option for an answer of `meantime serve`; the program acts on it before commands."""
    return click.option(
        "--session",
        is_flag=True,
        expose_value=False,
        help="Answer from the files that `meantime serve` has open.",
    )(function)


def offset_option(function: F) -> F:
    """Add the option that moves the times of inputs; `cli.inputs.offsets_of` parses it."""
    return click.option(
        "--offset",
        "offsets",
        cls=Documented,
        metavar="FILE=TIME",
        multiple=True,
        help="Time to add to the times of a file. Repeatable.",
        more="Its clock is not aligned then.",
    )(function)


def hosts_options(function: F) -> F:
    """Add the options for inputs on one axis of time, which are read at once or by a cluster."""
    aligned = click.option(
        "--assume-aligned", is_flag=True, help="Treat unrelated clocks as synchronised."
    )
    jobs = once(
        "-j",
        "jobs",
        metavar="N",
        type=click.IntRange(1),
        default=1,
        help="Number of files to read in parallel.  [1]",
        more="Histories of traces are kept in the cache.",
    )
    client = once(
        "--client",
        metavar="ADDRESS",
        help="Read the files with the workers of this dask scheduler, such as tcp://host:8786.",
        more="They build histories into their cache, from which they are used if this machine has"
        " it too. It needs the extra `[fleet]`.",
    )
    return offset_option(aligned(jobs(client(function))))


def of_options(function: F) -> F:
    """Add the options that say whether spans or samples are counted, as `of`."""
    for of in ("samples", "spans"):
        what = "functions that were sampled" if of == "samples" else "spans of threads"
        add = click.option(
            f"--{of}", "of", flag_value=of, help=f"Count {of}, where there are others too: {what}."
        )
        function = add(function)
    return function


def json_option(function: F) -> F:
    """Add the option for a result as one JSON object."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(function)


def force_option(function: F) -> F:
    """Add the option to replace an existing output."""
    return click.option("--force", is_flag=True, help="Replace the output if it exists.")(function)


filter_option = _declared_option("pattern", FILTER)
provider_option = _declared_option("provider", PROVIDER)
lenient_option = _declared_option("lenient", LENIENT)
strict_option = _declared_option("strict", STRICT)


def reading_options(function: F) -> F:
    """Add the options that say how inputs are read, which the functions of `cli.inputs` take."""
    return provider_option(lenient_option(strict_option(function)))


def given(names: Collection[str]) -> list[str]:
    """Return those of the running command's options that the command line has, as in its help.

    Args:
        names: The parameters of the command's function that are asked for.
    """
    context = click.get_current_context()
    return [
        option.opts[0]
        for option in context.command.params
        if option.name in names
        and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]


def reject(names: Collection[str], target: str) -> None:
    """Fail if an option is given that does not apply to the running command's input or output.

    Raises:
        UsageError: With the first such option.
    """
    for option in given(names):
        raise UsageError(f"{option} does not apply to {target}")
