"""What stands out in a history: blocked loops, slow calls and requests, waits, stops.

Each detector is a function of a `Scope` in a module that states its definition, its test and its
limit: `blocks` (with `steps`), `loops`, `polls`, `tasks` and `queues` for recordings, whose table
is `limits`; `activities`, `calls`, `waits`, `rhythm`, `entities` and `care` for every trace.
`outliers` has the test that most of them use, and `ranking` decides what is kept and in which
order.
"""

from __future__ import annotations

from meantime.query.findings.finding import Finding
from meantime.query.findings.search import findings

__all__ = ["Finding", "findings"]
