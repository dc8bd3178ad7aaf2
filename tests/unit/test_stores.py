"""Objects in stores: traces, histories and results by URL, and stores that fail."""

from __future__ import annotations

import os
import pickle
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime import stores
from meantime.cli import main
from meantime.errors import InputError, MissingExtraError
from meantime.history import HistoryBuilder
from meantime.history.store import Store
from meantime.stores import is_url, put_directory, store_url, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator

fsspec: Any = pytest.importorskip("fsspec", reason="the extra [fleet] is not installed")

STATEMAP = """\
{"start": [1, 0], "title": "disks", "states": {"idle": {"value": 0}, "busy": {"value": 1}}}
{"time": "0", "entity": "sd0", "state": 0}
{"time": "30", "entity": "sd0", "state": 1}
{"time": "60", "entity": "sd0", "state": 0}
"""


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use an empty cache, and an empty store."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(stores, "_PAUSE_S", 0)
    # 100 changes are a segment
    monkeypatch.setattr(Store.__init__, "__defaults__", (100,))
    # a test may hide parts of fsspec
    memory = fsspec.filesystem("memory")
    yield
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


def put(url: str, data: bytes) -> None:
    with fsspec.open(url, "wb") as file:
        file.write(data)


def built(path: Path, changes: int = 300) -> Path:
    """Build a history of several segments."""
    builder = HistoryBuilder(path)
    for time_ns in range(changes):
        builder.modify(time_ns, builder.quark("cpu0"), "ab"[time_ns % 2])
    builder.close(changes)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    return ended.value.code, *capsys.readouterr()


class Server(ThreadingHTTPServer):
    """Answers with files, as a store that fails as it is set to.

    Attributes:
        files: By path, the bytes.
        fails: Which requests fail, from 1.
        cut: Whether answers end after half of what they announce.
        ranges: Whether parts of files can be asked for.
    """

    files: dict[str, bytes]
    fails: frozenset[int]
    cut = False
    ranges = True
    requests = 0

    def handle_error(self, *_: object) -> None:
        """Say nothing of connections that a client has closed."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        self.server.requests += 1
        path, _, query = self.path.partition("?")
        data = self.server.files.get(path)
        status = 404 if data is None else 403 if query and query != "key=secret" else 200
        status = 500 if self.server.requests in self.server.fails else status
        if data is None or status != 200:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        whole = len(data)
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked and self.server.ranges:
            first, last = int(asked[1]), min(int(asked[2] or whole - 1), whole - 1)
            data = data[first : last + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{whole}")
        else:
            self.send_response(200)
        if self.server.ranges:
            self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data[: len(data) // 2] if self.server.cut else data)
        if self.server.cut:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    pytest.importorskip("aiohttp", reason="fsspec needs it for http")
    server = Server(("127.0.0.1", 0), Handler)
    server.files, server.fails = {}, frozenset()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def address(server: Server, path: str) -> str:
    return f"http://127.0.0.1:{server.server_port}{path}"


def test_what_is_secret_in_a_url_is_not_shown() -> None:
    url = "https://me:secret@host:8080/a/b.mth?X-Signature=secret#part"

    shown = store_url(url)

    assert shown == "https://host:8080/a/b.mth"
    assert pickle.loads(pickle.dumps(shown)) == shown  # noqa: S301 - our own bytes
    assert url.encode() in pickle.dumps(shown)
    assert store_url(url.replace("X-Signature=secret", "other")) == f"{shown}#2"
    assert (is_url("plain.json"), is_url("C:/x"), is_url("a/s3://x")) == (False, False, False)


def test_traces_and_histories_are_read_from_a_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put("memory://logs/disks.statemap", STATEMAP.encode())
    put_directory(built(tmp_path / "x.mth"), "memory://logs/x.mth", "manifest")

    trace = meantime.open("memory://logs/disks.statemap")
    history = meantime.open("memory://logs/x.mth")

    assert trace.states([0], [40]).value.to_list() == ["busy"]
    assert history.shares([0]).ns.sum() == 300
    assert len([*(tmp_path / "cache/meantime/stores").iterdir()]) == 1
    cached = meantime.open("memory://logs/disks.statemap", cache=True)
    assert cached.metadata.source.startswith(str(tmp_path / "cache"))
    status, out, _ = run(capsys, "stats", "memory://logs/*.statemap", "--json")
    assert (status, '"busy"' in out) == (0, True)
    names = ["memory://logs/x.mth", "memory://logs/disks.statemap"]
    assert run(capsys, "join", *names, "-o", tmp_path / "j.mtj")[0] == 0
    assert '"path": "memory://logs/x.mth"' in (tmp_path / "j.mtj").read_text()
    with pytest.raises(InputError, match=r"in other stores: memory://; .* --allow-urls"):
        meantime.open(tmp_path / "j.mtj")
    assert len(meantime.open(tmp_path / "j.mtj", allow="urls").quarks("Hosts/*")) == 2
    assert run(capsys, "info", tmp_path / "j.mtj", "--allow-urls")[0] == 0
    put("memory://logs/j.mtj", (tmp_path / "j.mtj").read_bytes().replace(b"memory://logs/", b""))
    assert len(meantime.open("memory://logs/j.mtj").quarks("Hosts/*")) == 2
    assert version_of("memory://logs/x.mth/manifest") is not None


def test_results_are_written_to_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "disks.statemap").write_text(STATEMAP)
    build = ["build", tmp_path / "disks.statemap", "-o", "memory://out/disks.mth"]

    assert run(capsys, *build)[0] == 0
    assert meantime.open("memory://out/disks.mth").at(40).value.to_list() == ["busy"]
    assert not [*(tmp_path / "cache/meantime/outgoing").iterdir()]
    status, _, err = run(capsys, *build)
    assert (status, "already exists; choose another name, or use --force" in err) == (1, True)
    assert run(capsys, *build, "--force")[0] == 0
    status, _, err = run(capsys, "build", tmp_path / "disks.statemap", "-o", "nowhere://x/y.mth")
    assert (status, "nowhere:// is not a store that fsspec knows" in err) == (1, True)


class NoSuchBucket(Exception):  # noqa: N818 - that of botocore
    """What botocore raises, and s3fs turns into a missing file."""

    def __init__(self) -> None:
        super().__init__("PutObject with AKIDSECRET")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": 404}}


@pytest.mark.skipif(sys.platform != "linux", reason="recording needs Linux")
@pytest.mark.parametrize(("own", "status"), [(7, 7), (0, 1)])
def test_a_recording_that_cannot_be_copied_is_left_and_keeps_the_status_of_its_command(
    own: int, status: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fail(*arguments: object) -> None:
        asked.append(arguments)
        raise FileNotFoundError("AKIDSECRET") from NoSuchBucket()

    monkeypatch.setattr(fsspec.filesystem("memory"), "put_file", fail)
    words = ("-q", "--open", "--", sys.executable, "-c", f"raise SystemExit({own})")

    code, _, err = run(capsys, "record", "-o", "memory://none/a.mtr", *words)

    assert code == status
    assert len(asked) == 1
    message, _, left = err.strip().partition("; it is in ")
    said = "there is no such bucket"
    assert message == f"meantime: memory://none/a.mtr: cannot be written: {said}"
    assert Path(left).is_file()


def test_hosts_in_a_store_are_called_as_their_files(tmp_path: Path) -> None:
    urls = [f"memory://site/{name}.mth" for name in ("web", "db")]
    for number, url in enumerate(urls):
        put_directory(built(tmp_path / f"{number}.mth", 10 + number), url, "manifest")

    joined = meantime.join([meantime.open(url) for url in urls])

    quarks = joined.quarks("Hosts/*/cpu0")
    assert [joined.attributes.path(quark)[1] for quark in quarks] == ["web", "db"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_trace_is_streamed_with_a_signed_url_that_no_message_has(
    server: Server, capsys: pytest.CaptureFixture[str], *, ranges: bool
) -> None:
    server.ranges = ranges
    server.files = {"/a.statemap": STATEMAP.encode(), "/b.statemap": b"{broken"}
    url = address(server, "/a.statemap")

    history = meantime.open(f"{url}?key=secret")

    assert history.metadata.source == url
    assert history.at(40).value.to_list() == ["busy"]
    for path, reason in (
        ("/a.statemap?key=old-secret", "the store answered 403; check its credentials"),
        ("/c.statemap?key=secret", "there is no such object"),
        ("/b.statemap?key=secret", "illegal datum"),
    ):
        status, out, err = run(capsys, "info", address(server, path))
        assert (status, out) == (1, "")
        assert reason in err
        assert err.count("\n") == 1
        assert "secret" not in err


def test_a_store_that_fails_now_and_then_is_asked_again(server: Server) -> None:
    server.files = {"/a.statemap": STATEMAP.encode()}
    server.fails = frozenset({2})  # the first one asks for the size

    assert meantime.open(address(server, "/a.statemap")).at(40).value.to_list() == ["busy"]
    server.requests, server.fails = 0, frozenset(range(2, 100))
    with pytest.raises(InputError, match=r"the store answered 500$"):
        meantime.open(address(server, "/a.statemap"))


@pytest.mark.parametrize("ranges", [True, False])
def test_an_answer_that_is_cut_is_an_error(server: Server, *, ranges: bool) -> None:
    server.files, server.cut, server.ranges = {"/a.statemap": STATEMAP.encode()}, True, ranges

    with pytest.raises(InputError, match=r"the store (failed|stopped answering)"):
        meantime.open(address(server, "/a.statemap"))


def test_a_history_whose_bytes_are_not_its_own_is_an_error(server: Server, tmp_path: Path) -> None:
    folder = built(tmp_path / "x.mth")
    files = {f"/x.mth/{each.relative_to(folder)}": each for each in folder.rglob("*")}
    server.files = {path: each.read_bytes() for path, each in files.items() if each.is_file()}
    segments = sorted(path for path in server.files if path.endswith(".seg"))
    whole = server.files[segments[1]]
    server.files[segments[1]] = whole[:-1] + bytes([whole[-1] ^ 1])
    url = address(server, "/x.mth")

    with pytest.raises(InputError, match=r"answers other bytes than were written: segments/"):
        meantime.open(url)
    server.files[segments[1]] = whole
    server.requests, server.fails = 0, frozenset(range(5, 100))
    with pytest.raises(InputError, match="the store answered 500"):
        meantime.open(url)
    server.fails = frozenset()
    # what was there is not asked for again
    server.files.pop(segments[0])
    assert meantime.open(url).shares([0]).ns.sum() == 300
    server.files = {"/x.mth/manifest": server.files["/x.mth/manifest"]}
    assert meantime.open(url).shares([0]).ns.sum() == 300
    server.files["/x.mth/manifest"] += b"00000000 {}\n"
    with pytest.raises(InputError, match="line 6 is damaged"):
        meantime.open(url)


def test_without_fsspec_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'meantime\[fleet\]'"):
        meantime.open("s3://bucket/a.json")


def test_a_joined_file_refers_to_stores_only(tmp_path: Path) -> None:
    put("memory://logs/disks.statemap", STATEMAP.encode())
    meantime.open("memory://logs/disks.statemap")
    from meantime.view_functions.joining import write_join  # noqa: PLC0415 - beside its use

    write_join(tmp_path / "j.mtj", ["memory://logs/disks.statemap"])
    text = (tmp_path / "j.mtj").read_text()
    (tmp_path / "j.mtj").write_text(text.replace("memory://", "ssh://"))

    with pytest.raises(InputError, match="is of a kind of store that joined files cannot refer to"):
        meantime.open(tmp_path / "j.mtj")
    assert os.fspath(store_url("memory://logs")) == "memory://logs"
