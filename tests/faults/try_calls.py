"""Fail each call that a command makes for a file, one after the other, and look at what is left.

    python tests/faults/try_calls.py                      all commands and faults: some minutes
    python tests/faults/try_calls.py --command build --fault EIO --call 12

For every command, every fault (EIO, ENOSPC, EINTR, short counts) and every n the n-th call fails.
The command must end with 1 and one line that says why, or do all of its work; nothing half written
has its final name, what was there before is there, and an interrupted build can be completed.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from library import STATE, preloaded

_HERE = Path(__file__).resolve().parent


def main() -> int:
    """Run and return the exit status: 1 if anything was found."""
    options = _options()
    if STATE not in os.environ:
        return _preloaded()
    sys.path.insert(0, str(_HERE.parent / "fuzz"))
    from commands import COMMANDS  # noqa: PLC0415 - only in the process that runs them
    from exercise import import_all  # noqa: PLC0415 - as above
    from trials import FAULTS, Runner, Shared  # noqa: PLC0415 - as above

    import_all()
    gc.freeze()  # each trial looks for unused objects: among its own, which are in its own memory
    shared = Shared(Path(os.environ[STATE]))
    failed = 0
    names = options.command or COMMANDS
    for index, name in enumerate(names):
        began_s = time.monotonic()
        # not a TemporaryDirectory, which a trial that ends would remove
        folder = tempfile.mkdtemp(prefix="faults-", dir=_memory_folder())
        try:
            runner = Runner(COMMANDS[name], Path(folder), shared)
            tried = 0
            found: dict[str, list[str]] = {}
            for fault in options.fault or FAULTS:
                calls = runner.calls(FAULTS[fault])
                for first in _chosen(calls, options, index):
                    tried += 1
                    call, wrong = runner.trial(FAULTS[fault], first)
                    for each in wrong:
                        found.setdefault(each, []).append(f"{fault} at {first}, {call}")
        finally:
            shutil.rmtree(folder)
        failed += len(found)
        for each, places in found.items():
            print(f"  {name}: {places[0]}, and {len(places) - 1} more: {each}", flush=True)
        print(f"{name}: {tried} calls failed, {time.monotonic() - began_s:.1f} s", flush=True)
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--command", action="append", help="only this command; may be repeated")
    parser.add_argument("--fault", action="append", help="only this fault; may be repeated")
    parser.add_argument("--call", type=int, help="only this call, counted from 1")
    parser.add_argument("--every", type=int, default=1, help="only every so many calls")
    return parser.parse_args()


def _chosen(calls: int, options: argparse.Namespace, index: int) -> range:
    """Return which calls fail; those of another command are others, where not all are tried."""
    if options.call is not None:
        return range(options.call, options.call + 1)
    return range(1 + index % options.every, calls + 1, options.every)


def _preloaded() -> int:
    """Run this program again with the library that makes calls fail."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        environment = os.environ | preloaded(Path(folder))
        return subprocess.run([sys.executable, *sys.argv], env=environment, check=False).returncode


def _memory_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - faster than a disk


if __name__ == "__main__":
    sys.exit(main())
