"""The public surface is what docs/reference/python.md documents; a change of it is seen in review.

`python tests/house/test_signatures.py` writes the stored text again.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENT = ROOT / "docs" / "reference" / "python.md"
STORED = Path(__file__).with_name("signatures.txt")
DIRECTIVE = re.compile(
    r"^\.\. auto(class|function|module|data):: (\S+)\n((?:   .*\n|\n)*)", re.MULTILINE
)


def surface() -> Iterator[str]:
    """Yield a line for each documented name, with its signature."""
    for kind, name, options in DIRECTIVE.findall(DOCUMENT.read_text()):
        if kind == "module":
            module = importlib.import_module(name)
            for each in module.__all__:
                yield from described(f"{name}.{each}", getattr(module, each), None)
            continue
        module, _, attribute = name.rpartition(".")
        value = getattr(importlib.import_module(module), attribute)
        yield from described(name, value, members(value, options))


def members(value: Any, options: str) -> list[str] | None:
    """Return which members of a class a directive documents; None where it names none."""
    found = re.search(r"^   :members:(.*)$", options, re.MULTILINE)
    if found is None:
        return None
    chosen = [each.strip() for each in found[1].split(",") if each.strip()]
    if chosen:
        return chosen
    left_out = re.search(r":exclude-members:((?:.|\n      )*)", options)
    without = set(re.split(r"[,\s]+", left_out[1])) if left_out else set()
    # None has a description since 3.15
    kept = vars(value).items()
    own = [each for each, found in kept if not each.startswith("_") and found is not None]
    return [each for each in own if each not in without and inspect.getdoc(getattr(value, each))]


def described(name: str, value: Any, documented: list[str] | None) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"class {name}{signature(value)}"
        if documented is None:
            documented = [each for each in vars(value) if not each.startswith("_")]
        for each in sorted(documented):
            member = inspect.getattr_static(value, each)
            called = getattr(value, each)
            text = signature(called) if callable(called) else ""
            what = "property " if isinstance(member, property) else ""
            yield f"    {what}{each}{text}"
    elif callable(value):
        yield f"{name}{signature(value)}"
    else:
        yield name


def signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    # as written: how annotations are kept differs between kinds of classes and between Pythons
    text = re.sub(r"""ForwardRef\((['"])(.*?)\1\)""", r"\2", text)
    text = re.sub(r"""(: |-> )(['"])(.*?)\2(?=[,)=\s]|$)""", r"\1\3", text)
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def text() -> str:
    return "".join(f"{line}\n" for line in surface())


def test_the_public_surface_changes_on_purpose_only() -> None:
    now, before = text(), STORED.read_text()

    gone = sorted(set(before.splitlines()) - set(now.splitlines()))
    new = sorted(set(now.splitlines()) - set(before.splitlines()))
    assert now == before, (
        f"gone: {gone}\nnew: {new}\n"
        "docs/stability.md says what may change when; then run tests/house/test_signatures.py, "
        "and say in CHANGELOG.md what users notice"
    )


def test_what_the_package_offers_is_documented() -> None:
    import meantime  # noqa: PLC0415 - not for writing the text

    documented = {name for _, name, _ in DIRECTIVE.findall(DOCUMENT.read_text())}
    homes = {each: f"{home}.{name}" for each, (home, name) in meantime._HOMES.items()}
    reached = set(re.findall(r"``meantime\.(\w+)``", DOCUMENT.read_text()))
    lacking = [
        name
        for name in meantime.__all__
        if name not in reached and not {homes[name], f"meantime.{name}"} & documented
    ]
    assert not lacking


if __name__ == "__main__":
    STORED.write_text(text())
