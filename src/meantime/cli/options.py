"""Options that several commands share, and how a repeated one is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Once", "once", "provider_option"]

F = TypeVar("F", bound="Callable[..., object] | click.Command")


class Once(click.Option):
    """An option with one value that may be given only once: a second one is an error."""

    def __init__(self, param_decls: Sequence[str], **attributes: Any) -> None:
        self.absent = attributes.pop("default", None)
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
    """Return a decorator for an option that takes one value, once."""
    return click.option(*names, cls=Once, **attributes)


def provider_option(function: F) -> F:
    """Decorate a command with the option that says what makes states of a trace's events."""
    return once(
        "--provider", metavar="FILE", help="What makes states of events: a TOML or Python file."
    )(function)
