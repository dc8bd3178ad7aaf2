"""Runs a command unchanged, with each Python in it recorded."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from meantime.collect.session import Options, begin

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["begin_here", "environment"]

VARIABLE = "MEANTIME_RECORDING"


def environment(
    path: str, options: Options, *, follow: bool, base: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment in which a command's Pythons record themselves into `path`.

    Args:
        path: A directory that is there already.
        options: What to record; its duration begins now, for all processes.
        follow: Whether processes that the command starts are recorded, too.
        base: The environment as it would be.
    """
    import json  # noqa: PLC0415 - not inside a program that records itself

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100,PTH120 - no pathlib inside the program
    settings: dict[str, Any] = {
        **options._asdict(),
        "path": os.path.abspath(path),  # noqa: PTH100 - no pathlib inside the program
        "home": os.path.dirname(package),  # noqa: PTH120 - no pathlib inside the program
        "follow": follow,
        "until_ns": time.monotonic_ns() + options.duration_ns if options.duration_ns else 0,
    }
    changed = dict(base)
    changed[VARIABLE] = json.dumps(settings)
    bootstrap = os.path.join(package, "collect", "bootstrap")  # noqa: PTH118 - no pathlib inside the program
    before = base.get("PYTHONPATH")
    changed["PYTHONPATH"] = bootstrap + os.pathsep + before if before else bootstrap
    return changed


def begin_here(settings: dict[str, Any]) -> None:
    """Begin to record this process, as `environment` has it."""
    if not settings["follow"]:
        _forget()
    duration_ns = 0
    if settings["until_ns"]:
        duration_ns = settings["until_ns"] - time.monotonic_ns()
        if duration_ns <= 0:
            return
    values = {name: settings[name] for name in Options._fields if name in settings}
    begin(settings["path"], Options(**{**values, "duration_ns": duration_ns}), fresh=False)


def _forget() -> None:
    del os.environ[VARIABLE]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)[1:]
    if paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        os.environ.pop("PYTHONPATH", None)
