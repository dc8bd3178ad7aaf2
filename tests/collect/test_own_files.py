"""What the recorder writes goes into its own files, whatever the program does with descriptors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import meantime
from meantime.model.anomalies import Anomalies
from meantime.readers.recording.listing import open_recording
from meantime.readers.recording.merge import Records, merged
from meantime.readers.recording.streams import stream_words

sys.path.insert(0, str(Path(__file__).parent))
from reading import CHROOT, is_capable, read

WAIT = 5
# closes all descriptors, and then uses each number that the recorder had for a file of its own
DAEMON = """
import asyncio, os, socket, sys
async def work():
    for _ in range(2000):
        await asyncio.sleep(0)
async def main():
    await asyncio.gather(*[work() for _ in range(10)])
asyncio.run(main())
kept = []
for name in os.listdir("/proc/self/fd"):
    try:
        if ".mtr" in os.readlink("/proc/self/fd/" + name):
            kept.append(int(name))
    except OSError:
        pass
os.closerange(3, 4096)
files = [open(f"own{number}", "wb", buffering=0) for number in range(4)]
pairs = [socket.socketpair() for _ in range(3)]
for each in files:
    each.write(b"precious")
for left, _ in pairs:
    left.send(b"precious")
for number, descriptor in enumerate(kept):
    target = files[number % 4].fileno() if number % 2 else pairs[number % 3][0].fileno()
    os.dup2(target, descriptor)
asyncio.run(main())
for left, right in pairs:
    right.setblocking(False)
    print(right.recv(1 << 20))
print(len(kept) > 0, *[os.path.getsize(f"own{number}") for number in range(4)])
"""
UNTOUCHED = "b'precious'\n" * 3 + "{} 8 8 8 8\n"


def _waits(path: Path) -> int:
    found = 0
    for process in open_recording(path).processes:
        for stream in process.streams.values():
            for item in merged([(stream_words(stream, Anomalies()).pieces, 0)]):
                assert isinstance(item, Records)
                found += int((item.kind == WAIT).sum())
    return found


def _record(
    tmp_path: Path, code: str, *options: str, words: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "meantime", "record", "-o", "run.mtr", *options, "--"]
    return subprocess.run(
        [*command, *words, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(meantime.__file__).parents[1])},
    )


@pytest.mark.parametrize("policy", ["block", "drop", "ring"])
def test_the_programs_own_files_are_not_written_to(tmp_path: Path, policy: str) -> None:
    unrecorded = subprocess.run(
        [sys.executable, "-c", DAEMON], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert unrecorded.stdout == UNTOUCHED.format(False)

    recorded = _record(tmp_path, DAEMON, "-q", "--policy", policy)

    assert recorded.stderr == ""
    assert recorded.stdout == UNTOUCHED.format(True)
    assert [path.read_bytes() for path in sorted(tmp_path.glob("own*"))] == [b"precious"] * 4
    trace = read(tmp_path / "run.mtr").trace
    waits = 2 * 10 * 2000 + 2  # of the workers, and of `main` for them
    if trace.anomalies["records_lost"]:
        assert policy == "drop"  # on a disk that is too slow for this machine
        assert _waits(tmp_path / "run.mtr") < waits
    else:
        assert dict(trace.anomalies) == {}
        assert _waits(tmp_path / "run.mtr") == waits


def test_a_segment_that_cannot_be_reached_any_more_is_counted_as_lost(tmp_path: Path) -> None:
    code = (
        "import os, shutil, sys\n"
        "from meantime.collect import _recorder\n"
        "_recorder.emit_many(5, 5000)\n"
        "os.rename('run.mtr', 'moved.mtr')\n"
        "os.closerange(3, 4096)\n"
        "_recorder.emit_many(5, 20000)\n"
        "os.rename('moved.mtr', 'run.mtr')\n"
    )

    done = _record(tmp_path, code, "-q")

    assert done.stderr == ""
    lost = read(tmp_path / "run.mtr").trace.anomalies["records_lost"]
    assert lost > 0
    assert _waits(tmp_path / "run.mtr") + lost == 25_000


def test_descriptors_are_high_and_not_inherited(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys\n"
        "from meantime.collect import _recorder\n"
        "_recorder.emit_many(5, 5000)\n"
        "kept = [int(n) for n in os.listdir('/proc/self/fd')\n"
        "        if '.mtr' in os.path.realpath('/proc/self/fd/' + n)]\n"
        "print(len(kept), min(kept) >= 100, any(map(os.get_inheritable, kept)))\n"
        "print(os.open('/dev/null', os.O_RDONLY) < 10)\n"
    )

    done = _record(tmp_path, code, "-q")

    # the directory, the facts, and the stream's segment
    assert done.stdout == "3 True False\nTrue\n"


@pytest.mark.skipif(
    tuple(map(int, os.uname().release.split(".")[:2])) < (5, 9), reason="close_range is new in 5.9"
)
def test_the_thread_that_watches_loops_has_descriptors_of_its_own(tmp_path: Path) -> None:
    # a table that threads share makes each system call of the program slower
    code = """
import asyncio, os, time
from pathlib import Path
def names(task):
    found = {}
    for number in os.listdir(f"/proc/self/task/{task}/fd"):
        try:
            found[int(number)] = os.readlink(f"/proc/self/task/{task}/fd/{number}")
        except OSError:
            pass
    return found
end = time.monotonic() + 60
def stuck():
    while time.monotonic() < end:
        if any(b"stuck" in path.read_bytes() for path in Path("run.mtr").glob("*.facts")):
            return
        time.sleep(0.02)
    print("its stack was not recorded")
async def main():
    while len(os.listdir("/proc/self/task")) < 2:
        await asyncio.sleep(0.01)
    (watcher,) = set(os.listdir("/proc/self/task")) - {str(os.getpid())}
    while time.monotonic() < end and any(".mtr" not in name for name in names(watcher).values()):
        await asyncio.sleep(0.01)
    for number, name in names(os.getpid()).items():
        if ".mtr" in name:
            os.close(number)
    stuck()
    print(all(".mtr" in name for name in names(watcher).values()))
asyncio.run(main())
"""

    done = _record(tmp_path, code, "-q", "--blocked", "20ms")

    assert (done.stdout, done.stderr) == ("True\n", "")
    assert dict(read(tmp_path / "run.mtr").trace.anomalies) == {}


def test_a_program_with_few_descriptors_is_recorded_all_the_same(tmp_path: Path) -> None:
    code = (
        "import os, resource\n"
        "held = []\n"
        "try:\n"
        "    while True: held.append(os.open('/dev/null', os.O_RDONLY))\n"
        "except OSError: pass\n"
        "os.close(held.pop()); os.close(held.pop())\n"
        "from meantime.collect import _recorder\n"
        "_recorder.emit_many(5, 10000)\n"
        "print(len(held) > 30)\n"
    )

    done = _record(tmp_path, code, "-q", words=("sh", "-c", 'ulimit -n 64; exec "$@"', "sh"))

    assert (done.stdout, done.stderr) == ("True\n", "")
    assert _waits(tmp_path / "run.mtr") == 10_000


@pytest.mark.skipif(not is_capable(CHROOT), reason="chroot needs root")
def test_a_program_in_a_root_of_its_own_is_recorded_on(tmp_path: Path) -> None:
    code = (
        "import os\n"
        "from meantime.collect import _recorder\n"
        "os.mkdir('jail'); os.chroot('jail')\n"
        "_recorder.emit_many(5, 10000)\n"
    )

    done = _record(tmp_path, code, "-q")

    assert done.stderr == ""
    assert _waits(tmp_path / "run.mtr") == 10_000
