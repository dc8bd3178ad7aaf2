"""Text of SVG: escaping, elements, numbers, and estimates of the width of texts.

Everything from a trace that reaches a file goes through `escape` or `json_text`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "cut_to",
    "element",
    "escape",
    "json_text",
    "px",
    "shown",
    "width_px",
    "without_prefix",
]

# None of them is printable.
_UNFIT = "[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
_RANK = " · "
# What joins two emoji, what changes the character before it (presentation, skin, keycap, tag), and
# one half of a flag.
_JOINER = "\u200d"
_CHANGING = re.compile("[\u200d\ufe00-\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")
_MARKUP = re.compile("[&<>\"']")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}

# The font of whoever reads the file is unknown: widths are estimated by classes of letters.
_NARROW = frozenset("ijltfrI.,:;'|!()[]{}/\\-`\" ")
_WIDE = frozenset("mwMWQO@%&")


def shown(text: str) -> str:
    r"""Return a text on one line in which every character is visible and allowed in XML.

    A control character becomes its Unicode picture, an invalid code point U+FFFD.

    >>> shown("a\nb\x00\ud800")
    'a␊b␀�'
    """
    return text if text.isprintable() else re.sub(_UNFIT, _picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def escape(text: str) -> str:
    """Return a text escaped for XML, in an element or in an attribute with either quotes.

    >>> escape('Vec<u8> & "x"')
    'Vec&lt;u8&gt; &amp; &quot;x&quot;'
    """
    return _MARKUP.sub(lambda match: _ENTITIES[match[0]], shown(text))


def json_text(value: object) -> str:
    r"""Return JSON in ASCII without any character that means something in XML or HTML.

    >>> json_text(["</script>", "é"])
    '["\\u003c/script\\u003e","\\u00e9"]'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def px(value: float) -> str:
    """Return a coordinate with at most two decimals.

    >>> px(12.0), px(0.333), px(-0.001)
    ('12', '0.33', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def element(
    name: str,
    attributes: Mapping[str, object] | None = None,
    *,
    text: str | None = None,
    inner: str = "",
) -> str:
    """Return an element; `text` and attributes are escaped, `inner` is markup already.

    >>> element("text", {"x": 1.5, "class": "muted"}, text="a<b")
    '<text x="1.5" class="muted">a&lt;b</text>'
    """
    head = name + "".join(
        f' {key}="{px(value) if isinstance(value, float | int) else escape(str(value))}"'
        for key, value in (attributes or {}).items()
    )
    content = inner if text is None else escape(text) + inner
    return f"<{head}>{content}</{name}>" if content else f"<{head}/>"


def width_px(text: str, font_px: float) -> float:
    """Return the estimated width of a text in a system's sans-serif font; rarely too small."""
    if text.isascii():
        ems = sum(
            0.34 if char in _NARROW else 0.92 if char in _WIDE else 0.7 if char.isupper() else 0.58
            for char in text
        )
    else:
        ems = sum(_char_ems(char) for char in text)
    return ems * font_px


def _char_ems(char: str) -> float:
    if unicodedata.combining(char):
        return 0.0
    if unicodedata.east_asian_width(char) in "WF":
        return 1.1
    return 0.34 if char in _NARROW else 0.7


def without_prefix(names: Sequence[str]) -> list[str]:
    """Return names without what all of them begin with, up to a character that separates parts.

    What comes before a middle dot is a rank, which stays.

    >>> without_prefix(["/srv/main/a", "/srv/main/b"]), without_prefix(["cpu1", "cpu2"])
    (['…a', '…b'], ['cpu1', 'cpu2'])
    >>> without_prefix(["0 · app 7 / main", "1 · app 7 / main 2"])
    ['0 · …main', '1 · …main 2']
    """
    parts = [name.rpartition(_RANK) for name in names]
    rests = [rest for _, _, rest in parts]
    prefix = 0
    if len(names) > 1:
        # what the extremes in order have in common, all between them have too
        for index, (low, high) in enumerate(zip(min(rests), max(rests), strict=False), 1):
            if low != high:
                break
            if not low.isalnum():
                prefix = index
    if not prefix:
        return list(names)
    return [f"{rank}{dot}…{rest[prefix:]}" for rank, dot, rest in parts]


def cut_to(text: str, room_px: float, font_px: float) -> str:
    r"""Return a text that fits, if necessary without its middle: names differ at both ends.

    >>> cut_to("tokio-runtime-worker-117", 90, 10)
    'tokio-r…ker-117'
    >>> cut_to("a\u0301" * 9, 30, 10) == "a\u0301a\u0301…a\u0301"  # nine letters with accents
    True
    """
    text = shown(text)
    if width_px(text[:500], font_px) <= room_px and len(text) <= 500:
        return text
    letters = _letters(text)
    keep = max(2, min(len(letters) - 1, int(room_px / font_px / 0.56) - 1))
    while keep > 2 and width_px(_without_middle(letters, keep), font_px) > room_px:
        keep -= 1
    return _without_middle(letters, keep)


def _without_middle(letters: Sequence[str], keep: int) -> str:
    return "".join([*letters[: keep - keep // 2], "…", *letters[len(letters) - keep // 2 :]])


def _letters(text: str) -> Sequence[str]:
    """Return what readers take for letters: characters with what changes or joins them."""
    if text.isascii():
        return text
    found: list[str] = []
    for char in text:
        before = found[-1] if found else ""
        is_flag = len(before) == 1 and _FLAG.match(before) and _FLAG.match(char)
        is_changing = (
            before.endswith(_JOINER) or unicodedata.combining(char) or _CHANGING.match(char)
        )
        if before and (is_flag or is_changing):
            found[-1] += char
        else:
            found.append(char)
    return found
