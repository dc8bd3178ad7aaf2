"""Command lines without secrets.

Nothing is imported here: this runs inside the recorded program.
"""

__all__ = ["without_secrets"]

_HIDDEN = "***"
_SECRET = ("token", "password", "passwd", "secret", "key")


def without_secrets(words: "list[str] | tuple[str, ...]") -> "list[str]":
    """Return the words of a command with `***` for what is secret by its name or place.

    It is what follows `--x=` or `--x`, where x contains `token`, `password`, `secret` or `key`, as
    also in `X=` and in queries of URLs, and passwords in URLs.

    >>> " ".join(without_secrets(["app", "--api-key=a1", "--token", "b2", "--user", "me"]))
    'app --api-key=*** --token *** --user me'
    >>> without_secrets(["DB_PASSWORD=c3", "https://me:d4@host/path?page=1&access_token=e5#top"])
    ['DB_PASSWORD=***', 'https://me:***@host/path?page=1&access_token=***#top']
    """
    shown = []
    follows = False
    for word in words:
        if follows and not word.startswith("--"):
            shown.append(_HIDDEN)
            follows = False
            continue
        name, assigned, value = word.partition("=")
        is_secret = _is_secret(name)
        follows = is_secret and not assigned and word.startswith("--")
        if is_secret and assigned:
            shown.append(f"{name}={_HIDDEN}")
        elif "://" in value:
            shown.append(f"{name}={_url(value)}")
        else:
            shown.append(_url(word))
    return shown


def _is_secret(name: str) -> bool:
    # what is before a = in a URL or the text of a program is not a name
    lower = name.lower()
    return name.replace("-", "").replace("_", "").replace(".", "").isalnum() and any(
        each in lower for each in _SECRET
    )


def _url(word: str) -> str:
    """Return a word without what is secret in it, if it is a URL."""
    scheme, found, rest = word.partition("://")
    if not found:
        return word
    place = rest.partition("/")[0].partition("?")[0].partition("#")[0]
    who, is_there, host = place.rpartition("@")
    if is_there and ":" in who:
        rest = f"{who.partition(':')[0]}:{_HIDDEN}@{host}{rest[len(place) :]}"
    path, asked, query = rest.partition("?")
    query, fragment, end = query.partition("#")
    parts = []
    for part in query.split("&"):
        name, assigned, _ = part.partition("=")
        parts.append(f"{name}={_HIDDEN}" if assigned and _is_secret(name) else part)
    return f"{scheme}{found}{path}{asked}{'&'.join(parts)}{fragment}{end}"
