"""The page around every picture: one SVG file with its data, its script and its style.

Without scripts (in an image tag, in a converter) the file is a static picture. In a browser its
script reads the data and replaces the picture with a page.
"""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.kernels.text import base64
from meantime.structs import struct
from meantime.views.svg import element, escape, json_text, px

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["FONT", "MARGIN_PX", "PIECE_BYTES", "Page", "header", "lines"]

FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif"
MARGIN_PX = 24

# Elements without a colour of their own have one of these classes. The dark half is in a media
# query, which converters ignore.
_LIGHT = {
    "paper": "fill:#fff",
    "ink": "fill:#191b20",
    "muted": "fill:#565b67",
    "none": "fill:#fff",
    "line": "fill:none;stroke:#e2e3e8",
    "frame": "fill:none;stroke:#cfd1d9",
    "twice": "fill:none;stroke:#191b20",
    "hatch": "fill:none;stroke:#d4d4d4",
    "swatch": "stroke:#0003",
}
_DARK = {
    "paper": "fill:#0f1013",
    "ink": "fill:#e7e8ec",
    "muted": "fill:#a6abb7",
    "none": "fill:#0f1013",
    "line": "fill:none;stroke:#282a31",
    "frame": "fill:none;stroke:#3a3d46",
    "twice": "fill:none;stroke:#e7e8ec",
    "hatch": "fill:none;stroke:#35363a",
    "swatch": "stroke:#fff4",
}

# XML parsers limit the length of a text (libxml2: 10 MB). A multiple of 3 bytes has no padding in
# base64.
PIECE_BYTES = 768 * 1024


@struct
class Page:
    """A picture, and the data that its script needs to make it interactive.

    Attributes:
        title: The name of the document.
        width_px: The picture's width.
        height_px: The picture's height.
        picture: The markup of the picture.
        script: The bundle's name in `static`, without `.js`; None of a picture without one.
        head: The data that the script reads as JSON.
        blocks: The data that it reads as bytes, by name; or an iterator of pieces, of which all but
            the last have `PIECE_BYTES`, if they are too large to be in memory at once.
    """

    title: str
    width_px: float
    height_px: float
    picture: Iterable[bytes]
    script: str | None = None
    head: object = None
    blocks: Mapping[str, bytes | Iterator[bytes]] = field(default_factory=dict)

    def document(self) -> bytes:
        """Return the file: well-formed XML in UTF-8, the same bytes for the same page."""
        return b"".join(self.parts())

    def parts(self) -> Iterator[bytes]:
        """Yield the parts of the file."""
        size = f"{px(self.width_px)} {px(self.height_px)}"
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}"'
            f' width="{px(self.width_px)}" height="{px(self.height_px)}"'
            f' font-family="{FONT}" font-size="12" role="img">\n'
        ).encode()
        yield f"<title>{escape(self.title)}</title>\n<style>{_style()}</style>\n".encode()
        if self.script is not None:
            yield from self._interactive(self.script)
        yield element("rect", {"class": "paper", "width": "100%", "height": "100%"}).encode()
        yield from self.picture
        yield b"\n</svg>\n"

    def _interactive(self, script: str) -> Iterator[bytes]:
        for piece in _pieces(json_text(self.head).encode()):
            yield from (b'<metadata data-block="head">', piece, b"</metadata>\n")
        for name, block in self.blocks.items():
            for piece in _pieces(block) if isinstance(block, bytes) else block:
                yield f'<metadata data-block="{escape(name)}">'.encode()
                yield base64(piece)
                yield b"</metadata>\n"
        # not by importlib.resources, which imports zipfile and takes 8 ms
        bundle = Path(__file__).with_name("static").joinpath(f"{script}.js").read_bytes()
        yield from (b"<script><![CDATA[\n", bundle, b"]]></script>\n")

    def html(self) -> bytes:
        """Return the page as an HTML file."""
        return (
            b'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            b'<meta name="viewport" content="width=device-width, initial-scale=1"><title>'
            + escape(self.title).encode()
            + b"</title><style>body{margin:0}</style></head><body>\n"
            + self.document()
            + b"</body></html>\n"
        )


def _style() -> str:
    def rules(looks: Mapping[str, str]) -> str:
        return "".join(f".{name}{{{look}}}" for name, look in looks.items())

    # the root's background fills a window that is larger than the picture
    light, dark = (f":root{{background:{looks['paper'][5:]}}}" for looks in (_LIGHT, _DARK))
    night = f"{dark}{rules(_DARK)}"
    return f"{light}{rules(_LIGHT)}@media screen and (prefers-color-scheme:dark){{{night}}}"


def _pieces(block: bytes) -> Iterable[bytes]:
    for start in range(0, len(block), PIECE_BYTES):
        yield block[start : start + PIECE_BYTES]


def header(title: str, subtitle: str) -> str:
    """Return the head of a picture, its uppermost 64 pixels."""
    return element(
        "text",
        {"class": "ink", "x": MARGIN_PX, "y": 34, "font-size": 17, "font-weight": "600"},
        text=title,
    ) + element("text", {"class": "muted", "x": MARGIN_PX, "y": 54}, text=subtitle)


def lines(texts: Sequence[str], top_px: float) -> str:
    """Return the foot of a picture: small lines of text, 16 pixels each, from `top_px` down."""
    return "".join(
        element(
            "text",
            {"class": "muted", "x": MARGIN_PX, "y": top_px + 12 + 16 * number, "font-size": 11},
            text=text,
        )
        for number, text in enumerate(texts)
    )
