"""Which fields of inputs are private: command lines, environments, headers of requests.

People share pages without knowing that these are in them, so readers copy them only if
`ReadOptions.private` is set.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from meantime.model.anomalies import Anomalies
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import ArgumentText, Trace

__all__ = [
    "PRIVATE_NAMES",
    "hide_secrets",
    "is_private",
    "leave_private_arguments_out",
    "leave_private_facts_out",
    "public",
]

_BRACKETS = {"{", "["}
# One of them is in each text of which `without_secrets` hides something.
_OF_SECRETS = ("token", "passw", "secret", "key", "://")
# A field is private if its name, in small letters and without - and _, is one of these, or begins
# with one of these and a dot. The kernels that look for these have the same rule: private_names.h.
PRIVATE_NAMES = (
    *("accesskey", "accesstoken", "apikey", "args", "arguments", "argv", "authorization"),
    *("authtoken", "clientsecret", "cmdline", "commandline", "cookie", "cookies", "credentials"),
    *("dbpassword", "env", "environ", "environment"),
    *("environmentvariable", "environmentvariables", "header", "headers", "headerstext"),
    *("http.request.header", "http.response.header"),
    *("javaarguments", "jvmarguments", "passwd", "password", "privatekey", "refreshtoken"),
    *("secret", "secretaccesskey", "secretkey", "sessiontoken", "userpassword"),
    *("process.command", "process.commandargs", "process.commandline", "process.environment"),
    *("process.environmentvariable", "process.environmentvariables", "process.owner"),
    *("proxyauthorization", "requestheader", "requestheaders", "requestheaderstext"),
    *("responseheader", "responseheaders", "responseheaderstext"),
    *("rpc.request.metadata", "rpc.response.metadata", "setcookie", "token"),
)
_NAMES = frozenset(PRIVATE_NAMES)
_CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PLAIN = str.maketrans(_CAPITALS, _CAPITALS.lower(), "-_")


def is_private(name: str) -> bool:
    """Return whether a field is private by its name.

    >>> is_private("Command-Line"), is_private("http.request.header.cookie"), is_private("tokens")
    (True, True, False)
    """
    plain = name.translate(_PLAIN)
    if plain in _NAMES:
        return True
    return "." in plain and any(
        plain[:end] in _NAMES for end, letter in enumerate(plain) if letter == "."
    )


def public(value: Any) -> tuple[Any, int]:
    """Return a value as in JSON without the private fields in it, and how many these are.

    A number is public whatever its name is.

    >>> public({"headers": 3, "command_line": "chrome --user=me", "more": [{"env": {}}]})
    ({'headers': 3, 'more': [{}]}, 2)

    Raises:
        RecursionError: If it is nested too deeply.
    """
    if isinstance(value, dict):
        kept = {
            key: public(each)
            for key, each in value.items()
            if isinstance(each, int | float) or not is_private(key)
        }
        inside = sum(count for _, count in kept.values())
        return {key: each for key, (each, _) in kept.items()}, inside + len(value) - len(kept)
    if isinstance(value, list):
        found = [public(each) for each in value]
        return [each for each, _ in found], sum(count for _, count in found)
    return value, 0


def leave_private_facts_out(trace: Trace) -> None:
    """Leave out what is private in the facts of a trace, and count it."""
    for name, text in list(trace.facts.items()):
        if is_private(name.partition(" of ")[0]):
            del trace.facts[name]
            trace.anomalies.add("private_field")
        elif text.lstrip()[:1] in _BRACKETS:
            try:
                kept, count = public(json.loads(text, strict=False))
            except (RecursionError, ValueError):
                continue
            if count:
                trace.facts[name] = json.dumps(kept)
                trace.anomalies.add("private_field", count)


def hide_secrets(trace: Trace) -> None:
    """Hide what is secret in facts and in names of processes and threads, and count the texts.

    Such a text may be a command line: many programs name a process by it.
    """
    count = 0
    for texts in (trace.facts, trace.names):
        for key, text in texts.items():
            shown = _shown(text)
            if shown != text:
                texts[key] = shown  # type: ignore[index]  # a key of the same table
                count += 1
    trace.anomalies.add("private_field", count)


def _shown(text: str) -> str:
    """Return a text, maybe of JSON, without secrets."""
    if text.lstrip()[:1] in _BRACKETS:
        with suppress(RecursionError, ValueError):
            value = json.loads(text, strict=False)
            shown = _with_texts_shown(value)
            return text if shown == value else json.dumps(shown)
    return _without_secrets(text)


def _with_texts_shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_texts_shown(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_texts_shown(each) for each in value]
    return _without_secrets(value) if isinstance(value, str) else value


def _without_secrets(text: str) -> str:
    lower = text.lower()
    if not any(each in lower for each in _OF_SECRETS):
        return text
    from meantime.collect.command_lines import without_secrets  # noqa: PLC0415 - few have one

    words = text.split(" ")
    if "\n" in text:
        # In the text of a program, unlike in a command, `key=` has nothing to hide.
        words = [without_secrets([word])[0] if "://" in word else word for word in words]
    else:
        words = without_secrets(words)
    return " ".join(words)


def leave_private_arguments_out(
    offset: Int64s, length: Int32s, text: ArgumentText, anomalies: Anomalies
) -> None:
    """Replace arguments of negative length by what is public of them, and count the rest.

    Args:
        offset: Where the JSON text of each row is; changed in place.
        length: How long it is; negative where a key is private. Changed in place.
        text: The texts, to which those without private keys are added.
        anomalies: Where what is left out is counted.
    """
    for row in np.flatnonzero(length < 0).tolist():
        try:
            kept, count = public(
                json.loads(text.read(int(offset[row]), -int(length[row])), strict=False)
            )
        except (RecursionError, ValueError):
            # it cannot be read, so all of it may be private
            kept, count = None, 1
        data = json.dumps(kept).encode() if kept else b""
        offset[row], length[row] = text.add(data) if data else 0, len(data)
        anomalies.add("private_field", count)
