"""Writes the states of PostgreSQL's sessions as a statemap: pg_stat_activity every 2 ms.

A state is seen when it is looked at: one of less than 2 ms may be missing, and the times of the
others are exact to 2 ms. The times are the database server's own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress

import asyncpg

INTERVAL_S = 0.002
QUERY = """
    select pid, application_name, state, wait_event_type, wait_event, query,
           (extract(epoch from clock_timestamp()) * 1000000)::bigint as us
    from pg_stat_activity
    where backend_type = 'client backend' and datname = 'shop' and pid <> pg_backend_pid()
"""
STATES = {
    "idle": "#d8dce2",
    "running": "#2e8b57",
    "idle in transaction": "#e8a33d",
    "waiting for a lock": "#c8373b",
    "waiting for the disk": "#7d5ba6",
    "waiting for the client": "#8fb8de",
    "waiting": "#9a7b4f",
}


def state_of(row: asyncpg.Record) -> str:
    """Return the state of a session."""
    if row["state"] != "active":
        return "idle in transaction" if "in transaction" in (row["state"] or "") else "idle"
    kinds = {None: "running", "Lock": "waiting for a lock", "IO": "waiting for the disk"}
    kinds["Client"] = "waiting for the client"
    return kinds.get(row["wait_event_type"], "waiting")


async def watch(seconds: float) -> None:
    """Print the statemap of this many seconds."""
    connection = await asyncpg.connect(
        database="shop", server_settings={"application_name": "watch"}
    )
    look = await connection.prepare(QUERY)
    loop = asyncio.get_running_loop()
    last: dict[int, tuple[str, str]] = {}
    numbers = {state: number for number, state in enumerate(STATES)}
    tags: set[tuple[int, str]] = set()
    began_us = await connection.fetchval(
        "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"
    )
    print(
        json.dumps(
            {
                "start": [began_us // 1_000_000, began_us % 1_000_000 * 1000],
                "title": "PostgreSQL 15, pg_stat_activity every 2 ms",
                "entityKind": "Session",
                "states": {s: {"value": numbers[s], "color": color} for s, color in STATES.items()},
            }
        )
    )
    ends = loop.time() + seconds
    while (now := loop.time()) < ends:
        rows = await look.fetch()
        for row in rows:
            state, query = state_of(row), " ".join(row["query"].split())
            if state.startswith("waiting"):
                query = f"{row['wait_event']}: {query}"
            if last.get(row["pid"]) == (state, query):
                continue
            entity = f"{row['application_name']} {row['pid']}"
            last[row["pid"]] = state, query
            key = numbers[state], query
            if key not in tags:
                tags.add(key)
                print(json.dumps({"state": key[0], "tag": query, "statement": query}))
            time_ns = (row["us"] - began_us) * 1000
            print(
                json.dumps({"time": str(time_ns), "entity": entity, "state": key[0], "tag": query})
            )
        for pid in last.keys() - {row["pid"] for row in rows}:
            del last[pid]
        await asyncio.sleep(max(0.0, now + INTERVAL_S - loop.time()))
    await connection.close()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(watch(float(sys.argv[1])))
