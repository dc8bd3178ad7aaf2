r"""Turn what strace prints into events that meantime reads, one JSON object a line.

strace -f --absolute-timestamps=unix,ns -e trace=openat,read,write,close -e signal=none -s 0 \
    -o files.strace COMMAND
python strace_to_jsonl.py < files.strace > files.jsonl
"""

from __future__ import annotations

import json
import re
import sys

CALL = re.compile(
    r"(?P<tid>\d+) +(?P<s>\d+)\.(?P<ns>\d{9}) (?P<call>openat|read|write|close)"
    r'\((?P<fd>\w+)(?:, "(?P<path>.*?)")?.*\) += (?P<result>\d+)$'
)

for line in sys.stdin:
    call = CALL.match(line)
    if call is None:  # it failed, or is none of these
        continue
    event = {
        "time_ns": int(call["s"] + call["ns"]),
        "name": call["call"].removesuffix("at"),
        "tid": int(call["tid"]),
    }
    if call["call"] == "openat":
        event |= {"fd": int(call["result"]), "path": call["path"]}
    elif call["call"] == "close":
        event |= {"fd": int(call["fd"])}
    else:
        event |= {"fd": int(call["fd"]), "bytes": int(call["result"])}
    print(json.dumps(event))  # noqa: T201 - it is what the script is for
