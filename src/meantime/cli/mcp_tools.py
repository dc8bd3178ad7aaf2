"""`meantime serve --mcp`: the commands of a session as tools of the Model Context Protocol.

Only this module imports the package `mcp`. A tool sends a command line to the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meantime import __version__
from meantime.cli.guide import guide
from meantime.model.tabular import need
from meantime.session import SessionError, ask

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["need_package", "run_tools"]

_TOOLS = ("info", "explain", "findings", "stats", "query", "why", "sql")


def need_package() -> Any:
    """Return the server of the package `mcp`.

    Raises:
        MissingExtraError: If it is not installed.
    """
    return need("mcp.server.mcpserver", "serve --mcp", "agent")


def run_tools(path: str, files: Sequence[str]) -> None:
    """Answer the agent on standard input until it ends.

    Args:
        path: The socket of the session.
        files: The files that it has open.
    """
    package = need_package()
    listed = ", ".join(files)
    server = package.MCPServer(
        "meantime",
        version=__version__,
        instructions=f"Traces that are open: {listed}. Answers are JSON.\n{guide()}",
    )
    types = need("mcp.types", "serve --mcp", "agent")
    hints = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    tools = _Tools(path, need("mcp.server.mcpserver.exceptions", "serve --mcp", "agent").ToolError)
    for tool in _TOOLS:
        server.tool(annotations=hints, structured_output=False)(getattr(tools, tool))
    server.run("stdio")


class _Tools:
    """A method for each command; their signatures are what an agent sees."""

    def __init__(self, path: str, error: type[Exception]) -> None:
        self._path = path
        self._error = error

    def _answer(self, command: str, *arguments: str, **options: str | int | None) -> str:
        for word in arguments:
            if word.startswith("-"):
                raise self._error(f"{word!r} is not an argument: it begins with -")
        given = [f"--{name}={value}" for name, value in options.items() if value is not None]
        return self._asked([command, *arguments, *given, "--json"])

    def info(self, file: str) -> str:
        """Return what is in a trace: format, range, threads, counts, anomalies."""
        return self._answer("info", file)

    def explain(self, file: str, start: str | None = None, end: str | None = None) -> str:
        """Return what limited a trace: conclusions with evidence, a budget, resources."""
        return self._answer("explain", file, **{"from": start, "to": end})

    def findings(
        self, file: str, start: str | None = None, end: str | None = None, limit: int | None = None
    ) -> str:
        """Return what stands out, most time lost first, each with a handle and a command."""
        return self._answer("findings", file, limit=limit, **{"from": start, "to": end})

    def stats(
        self,
        file: str,
        *,
        by: str | None = None,
        lane: str | None = None,
        longest: str | None = None,
        callers: str | None = None,
        callees: str | None = None,
        filter: str | None = None,  # noqa: A002 - as the option is called
        start: str | None = None,
        end: str | None = None,
        limit: int | None = None,
    ) -> str:
        """Return where the time went: by state, entity, name, thread, request or service."""
        return self._answer(
            "stats",
            file,
            by=by,
            lane=lane,
            longest=longest,
            callers=callers,
            callees=callees,
            filter=filter,
            limit=limit,
            **{"from": start, "to": end},
        )

    def query(
        self,
        file: str,
        question: list[str],
        start: str | None = None,
        end: str | None = None,
        limit: int | None = None,
    ) -> str:
        """Return states: [HANDLE], [at, TIME], [intervals, PATTERN], [shares, PATTERN], [tree]."""
        return self._answer("query", file, *question, limit=limit, **{"from": start, "to": end})

    def why(
        self,
        file: str,
        thread: str,
        start: str | None = None,
        end: str | None = None,
        limit: int | None = None,
    ) -> str:
        """Return the critical path of a thread in a trace of the scheduler."""
        return self._answer("why", file, thread=thread, limit=limit, **{"from": start, "to": end})

    def sql(self, file: str, statement: str, limit: int | None = None) -> str:
        """Return the rows of a SQL statement about intervals, states, spans, samples, points."""
        return self._answer("sql", file, statement, limit=limit)

    def _asked(self, words: list[str]) -> str:
        """Return the answer of the session, as soon as it has read the files."""
        try:
            status, out, err = ask(self._path, words)
        except SessionError as error:
            raise self._error(str(error)) from None
        text, notes = (each.decode(errors="replace") for each in (out, err))
        if status:
            raise self._error(notes.strip() or "the command failed")
        return text + notes
