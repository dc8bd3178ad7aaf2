"""Write `shared/figures.ts`: the figures of durations as meantime declares them.

Run `python web/write_figures.py` after a change of `meantime.model.durations`; a test compares.
"""

from __future__ import annotations

import json
from pathlib import Path

from meantime.model.durations import FIGURES

__all__ = ["TARGET", "text"]

TARGET = Path(__file__).parent / "shared" / "figures.ts"

_HEAD = """\
/**
 * The figures of statistics, in the order of tables.
 * Written by `write_figures.py`: change `meantime/model/durations.py`.
 */

export const FIGURES = [
"""


def text() -> str:
    """Return the module."""
    lines = []
    for figure in FIGURES.values():
        fields = {
            "key": figure.key,
            "title": figure.title,
            "form": figure.form,
            "sentence": figure.sentence,
            "percent": figure.percent,
            "isInTables": figure.rank is not None,
            "ifAny": figure.if_any,
        }
        lines.append(
            "  {{ {} }},\n".format(
                ", ".join(f"{name}: {json.dumps(value)}" for name, value in fields.items())
            )
        )
    return _HEAD + "".join(lines) + "] as const;\n"


if __name__ == "__main__":
    TARGET.write_text(text(), "utf-8")
