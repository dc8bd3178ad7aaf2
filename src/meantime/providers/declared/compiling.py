"""The Python function that a declaration is compiled to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from meantime.providers.declared.changes import indented
from meantime.providers.declared.conditions import equal
from meantime.providers.declared.emitting import emit

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.providers.declared.changes import Lines
    from meantime.providers.declared.values import Values

__all__ = ["Compiled", "compiled"]

_BEGIN = """
def run(state, rows, located):
 direct = state.direct()
 put = add = refuse
 now = state.ongoing
 if direct is not None:
  put, add, now = direct.put, direct.add, direct.now
 def top(quark):
  depth = now(quark)
  child = None if depth is None else state.attributes.find(text_of(depth), parent=quark)
  return None if child is None else now(child)
 scheduled = state.journal.scheduled
 spans, points = [], []
 incomplete = past = 0
 time_ns = name = None
 try:
  for ROW in rows:
   if scheduled and scheduled[0][0] <= time_ns:
    state.advance(time_ns)
"""
_END = """
  emit(state, spans, points)
 except Exception as error:
  raise located(error, name, time_ns) from error
 finally:
  state.anomalies.add("incomplete_change", incomplete)
  state.anomalies.add("past_change", past)
"""


class Compiled(NamedTuple):
    """A compiled declaration.

    Attributes:
        run: Called with a builder, rows, and a function that returns an error with its location. A
            row is a time, a program, a name, the values of `fields` and the texts of `texts`.
        fields: The fields whose values it uses.
        texts: The fields whose texts it uses.
    """

    run: Callable[..., None]
    fields: list[str]
    texts: list[str]


def compiled(programs: list[Lines], values: Values) -> Compiled:
    """Return the function that does for each event what its program says.

    Raises:
        MemoryError: If the programs are nested too deeply, as SyntaxError and RecursionError.
    """
    body = "\n".join(indented(indented(indented(_choice(programs, 0)))))
    used = set(re.findall(r"\w+", body))
    fields = {field: name for field, name in values.fields.items() if name in used}
    texts = {field: name for field, name in values.texts.items() if name in used}
    row = ", ".join(["time_ns", "program", "name", *fields.values(), *texts.values()])
    # The text contains no text of the file except as string literals: see `values`.
    code = compile(_BEGIN.replace("ROW", row) + body + _END, "<declared provider>", "exec")
    known = {"equal": equal, "emit": emit, "refuse": lambda *_: False}
    names: dict[str, Any] = values.names | known
    exec(code, names)  # noqa: S102 - as above; interpreting it would take ten times as long
    # removed, as a function that is in its own globals is a cycle, which would keep the builder
    return Compiled(names.pop("run"), [*fields], [*texts])


def _choice(programs: list[Lines], first: int) -> Lines:
    """Return lines that choose a program by its number, in a logarithmic number of comparisons."""
    if len(programs) == 1:
        return programs[0] or ["pass"]
    half = len(programs) // 2
    return [
        f"if program < {first + half}:",
        *indented(_choice(programs[:half], first)),
        "else:",
        *indented(_choice(programs[half:], first + half)),
    ]
