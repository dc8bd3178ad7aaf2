"""Imported by `meantime_enable.pth` in each Python that has MEANTIME in its environment."""

from __future__ import annotations

import os
import sys

if os.environ.get("MEANTIME") == "1":
    from meantime.collect import OTHER_INTERPRETER

    try:
        from meantime.collect.enabling import enable

        enable()
    except Exception as error:  # noqa: BLE001 - the program must run whatever happens here
        # the process listens already, by its main interpreter
        if str(error) != OTHER_INTERPRETER:
            sys.stderr.write(f"meantime: MEANTIME=1 has no effect: {error}\n")
