"""meantime: what everything was doing, in the meantime.

`import meantime` is cheap: it imports each submodule when a name of it is first used.
"""

from __future__ import annotations

# Not imported from typing: a recorded program imports this package, and should import little else.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from meantime.collect.enabling import enable as enable
    from meantime.collect.session import record as record
    from meantime.collect.session import start as start
    from meantime.collect.session import stop as stop
    from meantime.errors import MeantimeError as MeantimeError
    from meantime.history import History as History
    from meantime.history import HistoryBuilder as HistoryBuilder
    from meantime.inspection import inspect_process as inspect_process
    from meantime.model.attributes import ANY as ANY
    from meantime.model.attributes import ANY_DEPTH as ANY_DEPTH
    from meantime.model.attributes import UP as UP
    from meantime.model.bounded import bounded as bounded
    from meantime.model.clocks import Clock as Clock
    from meantime.model.extent import in_zone as in_zone
    from meantime.model.trace import LaneDeclaration as LaneDeclaration
    from meantime.model.trace import State as State
    from meantime.opening.history_from_path import open_history as open  # noqa: A004 - meantime.open(path)
    from meantime.opening.history_from_trace import build as build
    from meantime.providers import StateProvider as StateProvider
    from meantime.query.critical_path import critical_path as critical_path
    from meantime.query.explain import explain as explain
    from meantime.query.findings import findings as findings
    from meantime.query.rules import check_rules as check_rules
    from meantime.query.sql import database as database
    from meantime.query.sql import sql as sql
    from meantime.query.stats import stats as stats
    from meantime.server.view import view as view
    from meantime.system.recording import record_system as record_system
    from meantime.view_functions.comparing import compare as compare
    from meantime.view_functions.comparing import diff as diff
    from meantime.view_functions.comparing import summarize as summarize
    from meantime.view_functions.flame import flame as flame
    from meantime.view_functions.heatmap import heatmap as heatmap
    from meantime.view_functions.joining import join as join
    from meantime.view_functions.statemap import statemap as statemap

__version__ = "0.1.0"
__all__ = [
    "ANY",
    "ANY_DEPTH",
    "UP",
    "Clock",
    "History",
    "HistoryBuilder",
    "LaneDeclaration",
    "MeantimeError",
    "State",
    "StateProvider",
    "bounded",
    "build",
    "check_rules",
    "compare",
    "critical_path",
    "database",
    "diff",
    "enable",
    "explain",
    "findings",
    "flame",
    "heatmap",
    "in_zone",
    "inspect_process",
    "join",
    "open",
    "record",
    "record_system",
    "sql",
    "start",
    "statemap",
    "stats",
    "stop",
    "summarize",
    "view",
]

_HOMES = {
    "load_ipython_extension": ("meantime.plugins.jupyter", "load_ipython_extension"),
    "unload_ipython_extension": ("meantime.plugins.jupyter", "unload_ipython_extension"),
    "ANY": ("meantime.model.attributes", "ANY"),
    "ANY_DEPTH": ("meantime.model.attributes", "ANY_DEPTH"),
    "UP": ("meantime.model.attributes", "UP"),
    "bounded": ("meantime.model.bounded", "bounded"),
    "Clock": ("meantime.model.clocks", "Clock"),
    "History": ("meantime.history", "History"),
    "HistoryBuilder": ("meantime.history", "HistoryBuilder"),
    "MeantimeError": ("meantime.errors", "MeantimeError"),
    "LaneDeclaration": ("meantime.model.trace", "LaneDeclaration"),
    "State": ("meantime.model.trace", "State"),
    "StateProvider": ("meantime.providers", "StateProvider"),
    "build": ("meantime.opening.history_from_trace", "build"),
    "check_rules": ("meantime.query.rules", "check_rules"),
    "compare": ("meantime.view_functions.comparing", "compare"),
    "critical_path": ("meantime.query.critical_path", "critical_path"),
    "database": ("meantime.query.sql", "database"),
    "diff": ("meantime.view_functions.comparing", "diff"),
    "enable": ("meantime.collect.enabling", "enable"),
    "explain": ("meantime.query.explain", "explain"),
    "findings": ("meantime.query.findings", "findings"),
    "flame": ("meantime.view_functions.flame", "flame"),
    "heatmap": ("meantime.view_functions.heatmap", "heatmap"),
    "in_zone": ("meantime.model.extent", "in_zone"),
    "inspect_process": ("meantime.inspection", "inspect_process"),
    "join": ("meantime.view_functions.joining", "join"),
    "open": ("meantime.opening.history_from_path", "open_history"),
    "record": ("meantime.collect.session", "record"),
    "record_system": ("meantime.system.recording", "record_system"),
    "sql": ("meantime.query.sql", "sql"),
    "start": ("meantime.collect.session", "start"),
    "statemap": ("meantime.view_functions.statemap", "statemap"),
    "stats": ("meantime.query.stats", "stats"),
    "stop": ("meantime.collect.session", "stop"),
    "summarize": ("meantime.view_functions.comparing", "summarize"),
    "view": ("meantime.server.view", "view"),
}


if not TYPE_CHECKING:
    # Hidden from type checkers: they would accept any name as an attribute of this module.

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            from importlib import import_module  # noqa: PLC0415 - see above

            module, attribute = _HOMES[name]
            return getattr(import_module(module), attribute)
        raise AttributeError(f"module 'meantime' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
