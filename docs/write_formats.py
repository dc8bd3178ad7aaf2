"""Write the table in `formats.md`: what can be read, as `meantime.readers.formats` declares it.

Run `python docs/write_formats.py` after a declaration has changed; a test compares.
"""

from __future__ import annotations

from pathlib import Path

from meantime.readers.formats import FORMATS

__all__ = ["TARGET", "written"]

TARGET = Path(__file__).parent / "formats.md"
_BEGIN, _END = "<!-- written by write_formats.py -->\n", "<!-- end -->\n"


def written(page: str) -> str:
    """Return the page with its table."""
    rows = ["| you have | made by | run |", "|---|---|---|"]
    for use in (use for each in FORMATS for use in each.uses):
        more = f" ({use.see})" if use.see else ""
        rows.append(f"| {use.called} | {use.made_by}{more} | {use.run} |")
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return before + _BEGIN + "\n" + "".join(f"{row}\n" for row in rows) + "\n" + _END + after


if __name__ == "__main__":
    TARGET.write_text(written(TARGET.read_text()))
