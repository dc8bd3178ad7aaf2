"""What memory the server of `meantime view` needs while many clients ask it for anything.

python benchmarks/clients.py [--clients 50] [--minutes 10] [TRACE]

Each client sends requests of every kind, one after the other: nine of ten valid, the others with a
number, a name or a statement that is wrong. It leaves one in ten before it is answered. Memory is
what the server has for itself and its part of what it shares (PSS), without the process in which
statements run, whose memory is printed, too. It ends with 1 if an answer was a defect of the
server, or if the memory was more than 300 MB at any time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode, urlsplit

ROOT = Path(__file__).resolve().parents[1]
MOST_MB = 300
WRONG, LEFT = 0.1, 0.1
EVERY_S = 1.0
STATEMENTS = (
    "select count(*) from intervals",
    "select name, count(*) n, sum(end_ns - start_ns) from spans group by name order by n desc",
    "select * from samples limit 100",
    "select repeat('a', 100000000)",
)
QUESTIONS = (
    *("at", "span", "context", "neighbors", "points", "time", "flows", "moment", "shares"),
    *("statistics", "summary", "findings", "flame", "heat", "search", "activity", "why"),
)


class Load:
    """The requests of one session, chosen at random."""

    def __init__(self, address: str) -> None:
        url = urlsplit(address)
        assert url.port is not None
        self._port = url.port
        self._headers = {"cookie": f"meantime-{url.port}={address.partition('token=')[2]}"}
        self.statuses: Counter[int | str] = Counter()
        file: dict[str, Any] = {}
        with closing(self._connection()) as connection:
            while file.get("status") != "ready":
                [file] = json.loads(self._get(connection, "/session.json")[1])["files"]
            self._layout = file["layout"]
            self._begin_ns, self._end_ns = int(file["start_ns"]), int(file["end_ns"])
            lanes = json.loads(self._get(connection, f"/lanes/0/{self._layout}")[1])
        self._lanes = len(lanes["kind"])
        self._blocks = sorted(
            {each for each in zip(lanes["kind"], lanes["block"], strict=True) if each[1] >= 0}
        )

    def _connection(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self._port, timeout=600)

    def _get(self, connection: HTTPConnection, path: str) -> tuple[int, bytes]:
        connection.request("GET", path, headers=self._headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def _path(self, random: Random) -> str:
        layout = self._layout + (random.random() < WRONG)
        chosen = random.random()
        if chosen < 0.5:
            kind, block = random.choice(self._blocks)
            level = random.randrange(8, 30)
            index = random.randrange((self._end_ns >> level + 9) + 1)
            if random.random() < WRONG:
                index = random.choice((-1, 2**62, 10**30))
            return f"/tile/0/{layout}/{kind}/{block}/{level}/{index}"
        if chosen < 0.6:
            return random.choice(("/session.json", "/progress", "/notes", "/", "/viewer.js", "/no"))
        if chosen < 0.7:
            return random.choice((f"/lanes/0/{layout}", f"/names/0/{layout}"))
        if chosen < 0.72:
            statement = random.choice(STATEMENTS)
            return f"/sql?{urlencode({'file': 0, 'statement': statement})}"
        begin_ns, end_ns = sorted(random.randrange(self._begin_ns, self._end_ns) for _ in "ab")
        asked: dict[str, Any] = {
            "file": 0, "layout": layout, "from": begin_ns, "to": end_ns,
            "time": begin_ns, "lane": random.randrange(self._lanes), "row": random.randrange(3),
            "span": random.randrange(10**4), "bins": random.randrange(1, 2000),
            "name": random.choice(("compute", "x", "")), "text": random.choice(("a", "1s", "e.*")),
            "by": random.choice(("state", "name", "thread", "stack")),
            "limit": random.randrange(1, 1000),
        }  # fmt: skip
        if random.random() < WRONG:
            asked[random.choice([*asked])] = random.choice((-1, 2**64, "x" * 500, "\0", ""))
        return f"/{random.choice(QUESTIONS)}?{urlencode(asked)}"

    def run(self, seed: int, until_s: float) -> None:
        """Send requests, one after the other."""
        random = Random(seed)  # noqa: S311 - it has to be repeatable
        connection = self._connection()
        while time.monotonic() < until_s:
            path = self._path(random)
            try:
                if random.random() < LEFT:
                    connection.request("GET", path, headers=self._headers)
                    time.sleep(random.random() / 20)
                    connection.close()
                    self.statuses["left"] += 1
                    continue
                self.statuses[self._get(connection, path)[0]] += 1
            except (OSError, HTTPException) as error:
                self.statuses[type(error).__name__] += 1
                connection.close()
        connection.close()


def memory_mb(process: int) -> float:
    """Return the memory of a process, with its part of what several share."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
    return next(int(line.split()[1]) / 1000 for line in text.splitlines() if line[:4] == "Pss:")


def below_mb(process: int) -> float:
    """Return the memory of the processes that a process started."""
    found = 0.0
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError, StopIteration):  # it has ended
            for child in (task / "children").read_text(encoding="ascii").split():
                found += memory_mb(int(child))
    return found


def main() -> int:
    """Measure, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("trace", nargs="?", default=str(ROOT / "examples" / "training.json.gz"))
    options = parser.parse_args()
    command = [sys.executable, "-m", "meantime", "view", "--no-open", "--port", "0", options.trace]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            load = Load(server.stdout.readline().split()[0])
            used = [(0.0, memory_mb(server.pid), 0.0)]
            begin_s = time.monotonic()
            until_s = begin_s + 60 * options.minutes
            clients = [
                threading.Thread(target=load.run, args=[number, until_s])
                for number in range(options.clients)
            ]
            for each in clients:
                each.start()
            shown_s = begin_s
            while any(each.is_alive() for each in clients):
                time.sleep(EVERY_S)
                now_s = time.monotonic()
                used.append((now_s - begin_s, memory_mb(server.pid), below_mb(server.pid)))
                if now_s - shown_s > 60:
                    shown_s = now_s
                    print("{:4.0f} s  {:.0f} MB".format(*used[-1]), dict(load.statuses), flush=True)
            used.append((time.monotonic() - begin_s, memory_mb(server.pid), 0.0))
        finally:
            server.kill()
    most = max(mb for _, mb, _ in used)
    answered = load.statuses.total() - load.statuses["left"]
    print(
        f"{options.clients} clients, {used[-1][0]:.0f} s, {answered:,} answers,"
        f" {load.statuses['left']:,} left: {used[0][1]:.0f} MB at first, {most:.0f} MB at most,"
        f" {used[-1][1]:.0f} MB at the end; statements: {max(mb for *_, mb in used):.0f} MB"
    )
    print(dict(load.statuses))
    return int(most > MOST_MB or any(not isinstance(s, str) and s >= 500 for s in load.statuses))


if __name__ == "__main__":
    sys.exit(main())
