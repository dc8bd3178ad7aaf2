"""One task per input, and a tree of sums: in processes of this machine, or on a cluster of dask.

What a task raises because of its input is a failure of that input, and the others are added up. A
task whose process was killed is repeated, and is a failure only if its process dies each time.
"""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from meantime.errors import MeantimeError, MissingExtraError
from meantime.system_calls import interrupts_later

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

__all__ = ["Failure", "Total", "client_of", "total"]

_AT_ONCE = 16
# How often tasks are repeated together when a process died, before each has a process of its own.
_REPEATED = 2
# How long a cluster without workers is waited for, in asks of so many seconds: workers that died
# are started again.
_ASK_S, _ASKS = 10.0, 6
_KILLED = "the process that read it was killed, perhaps since there was not enough memory"

InputT = TypeVar("InputT")
ResultT = TypeVar("ResultT")


class Failure(NamedTuple):
    """An input without a result, and why.

    Attributes:
        number: The index of the input.
        error: What its task raised.
    """

    number: int
    error: MeantimeError


@dataclass(frozen=True, slots=True)
class Total(Generic[ResultT]):
    """The sum of the results of all inputs that have one.

    Attributes:
        value: The sum; None if all inputs failed.
        failures: The inputs that failed, in order.
    """

    value: ResultT | None
    failures: tuple[Failure, ...] = ()


def total(
    task: Callable[[InputT], ResultT],
    inputs: Sequence[InputT],
    added: Callable[[Sequence[ResultT]], ResultT],
    *,
    client: Any = None,
    jobs: int | None = None,
    done: Callable[[int], None] | None = None,
) -> Total[ResultT]:
    """Return the sum of the results of a task for each input.

    >>> total(abs, [3, -4], sum).value
    7

    Args:
        task: Returns the result of an input. With processes or a client it is pickled, as are the
            inputs and the results.
        inputs: The inputs.
        added: Returns the sum of results, in the order of the inputs; of one, that result or one
            that is equal.
        client: A `distributed.Client`, whose workers do the work; None for this machine.
        jobs: The number of processes; 1 does the work in this one. By default as many as there are
            processors, but no more than inputs.
        done: Called with the number of inputs that are done, now and then.

    Raises:
        MeantimeError: If the client's cluster cannot compute sums, or has no workers or scheduler
            any more.
    """
    if client is not None and inputs:
        return _on_cluster(task, inputs, added, client, done)
    jobs = min(os.cpu_count() or 1 if jobs is None else jobs, len(inputs))
    sums = _Tree(added)
    if jobs <= 1:
        for index, each in enumerate(inputs):
            sums.add(_result(task, index, each))
            if done is not None:
                done(index + 1)
        return sums.total()
    return _in_processes(task, inputs, sums, jobs, done)


def client_of(address: str) -> Any:
    """Return a client of the dask scheduler with this address.

    Raises:
        MeantimeError: If the scheduler does not answer.
        MissingExtraError: If dask.distributed is not installed.
    """
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise MissingExtraError(
            "a cluster needs dask.distributed, which is not installed: pip install"
            " 'meantime[fleet]'"
        ) from None
    try:
        return distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        reason = str(error)
    # The finalizer of that client stops its event loop: at another time, while one starts, it could
    # wait for a lock for ever.
    gc.collect()
    raise MeantimeError(f"{address}: no dask scheduler answers there: {reason}")


def _result(task: Callable[[InputT], ResultT], index: int, given: InputT) -> Total[ResultT]:
    try:
        return Total(task(given))
    except MeantimeError as error:
        return Total(None, (Failure(index, error),))
    except OSError as error:
        return Total(None, (Failure(index, MeantimeError(str(error))),))
    except MemoryError:
        return Total(None, (Failure(index, MeantimeError("there is not enough memory for it")),))


def _sum(
    added: Callable[[Sequence[ResultT]], ResultT], parts: Sequence[Total[ResultT]]
) -> Total[ResultT]:
    values = [part.value for part in parts if part.value is not None]
    failures = tuple(each for part in parts for each in part.failures)
    return Total(added(values) if values else None, failures)


@dataclass(slots=True)
class _Tree(Generic[ResultT]):
    """Adds up results in groups, groups of groups and so on, so that few wait at a time."""

    added: Callable[[Sequence[ResultT]], ResultT]
    _levels: list[list[Total[ResultT]]] = field(default_factory=list)

    def add(self, part: Total[ResultT], level: int = 0) -> None:
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(part)
        if len(self._levels[level]) == _AT_ONCE:
            whole = _sum(self.added, self._levels[level])
            self._levels[level] = []
            self.add(whole, level + 1)

    def total(self) -> Total[ResultT]:
        # the higher levels have the earlier inputs
        return _sum(self.added, [part for level in self._levels[::-1] for part in level])


def _in_processes(
    task: Callable[[InputT], ResultT],
    inputs: Sequence[InputT],
    sums: _Tree[ResultT],
    jobs: int,
    done: Callable[[int], None] | None,
) -> Total[ResultT]:
    # 26 ms, and most tasks are done in this process
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 - see above
    from multiprocessing import get_context  # noqa: PLC0415 - see above

    waiting: dict[int, Total[ResultT]] = {}
    missing = list(range(len(inputs)))
    first = 0
    rounds = 0
    while missing:
        alone = rounds > _REPEATED
        groups = [[index] for index in missing] if alone else [missing]
        for group in groups:
            # spawn, as forking a process with threads can deadlock
            pool = ProcessPoolExecutor(min(jobs, len(group)), mp_context=get_context("spawn"))
            with pool, _ended_by_an_interrupt():
                with interrupts_later():
                    futures = {
                        index: pool.submit(_result, task, index, inputs[index]) for index in group
                    }
                for index, future in futures.items():
                    if (found := _found(future)) is not None:
                        waiting[index] = found
                    elif alone:
                        waiting[index] = Total(None, (Failure(index, MeantimeError(_KILLED)),))
                    while first in waiting:
                        sums.add(waiting.pop(first))
                        first += 1
                    if done is not None:
                        done(first + len(waiting))
        missing = [index for index in missing if index >= first and index not in waiting]
        rounds += 1
    return sums.total()


@contextmanager
def _ended_by_an_interrupt() -> Iterator[None]:
    """End the processes that the block started where it is interrupted: none waits for its task."""
    from multiprocessing import active_children  # noqa: PLC0415 - only with workers

    before = {child.pid for child in active_children()}
    try:
        yield
    except KeyboardInterrupt:
        for child in active_children():
            if child.pid not in before:
                child.terminate()
        raise


def _found(future: Future[Total[ResultT]]) -> Total[ResultT] | None:
    """Return a result, or None if the process died."""
    from concurrent.futures.process import BrokenProcessPool  # noqa: PLC0415 - as above

    try:
        return future.result()
    except BrokenProcessPool:
        return None


def _on_cluster(
    task: Callable[[InputT], ResultT],
    inputs: Sequence[InputT],
    added: Callable[[Sequence[ResultT]], ResultT],
    client: Any,
    done: Callable[[int], None] | None,
) -> Total[ResultT]:
    distributed = import_module("distributed")
    numbers = range(len(inputs))
    leaf = _Leaf(task)
    leaves = client.map(leaf, numbers, inputs, pure=False, key="meantime-host")
    if done is not None:
        counter = count(1)
        for each in leaves:
            each.add_done_callback(lambda _: done(next(counter)))
    repeated: dict[int, Total[ResultT]] = {}
    rounds = 0
    while True:
        level: list[Any] = [repeated.get(index, each) for index, each in enumerate(leaves)]
        is_summed = False
        while len(level) > 1 or not is_summed:
            groups = [level[first : first + _AT_ONCE] for first in range(0, len(level), _AT_ONCE)]
            level = [client.submit(_sum, added, group, pure=False) for group in groups]
            is_summed = True
        found: Total[ResultT] | None = _unless_killed(client, level[0])
        if found is not None:
            return found
        # the scheduler has given up a task, whose workers died each time
        with client.as_current():
            _awaited(client, partial(distributed.wait, leaves, timeout=_ASK_S))
        dead = [
            index for index in numbers if index not in repeated and leaves[index].status == "error"
        ]
        rounds += not dead
        if rounds > _REPEATED:
            raise MeantimeError(f"the sums of hosts could not be computed: {_KILLED}")
        for index in dead:
            # those beside a task that kills its worker are given up, too: each is asked alone
            again = _unless_killed(client, client.submit(leaf, index, inputs[index], pure=False))
            repeated[index] = again or Total(None, (Failure(index, MeantimeError(_KILLED)),))


def _unless_killed(client: Any, future: Any) -> Any:
    """Return the result of a task, or None if it was given up since its workers died."""
    killed = import_module("distributed").KilledWorker
    try:
        return _awaited(client, partial(future.result, timeout=_ASK_S))
    except killed:
        return None


def _awaited(client: Any, ask: Callable[[], Any]) -> Any:
    """Return what a question to the cluster gives; it is asked again while it times out.

    Raises:
        MeantimeError: If there are no workers any more, or no scheduler.
    """
    from concurrent.futures import CancelledError  # noqa: PLC0415 - as above

    without = 0
    while True:
        try:
            return ask()
        except TimeoutError:
            without = 0 if _has_workers(client) else without + 1
            if without == _ASKS:
                raise MeantimeError(
                    "the cluster has no workers any more: start some, or read the inputs on this"
                    " machine"
                ) from None
        except CancelledError:
            raise MeantimeError(
                "the dask scheduler has ended, or cancelled the tasks: start it again, or read the"
                " inputs on this machine"
            ) from None


def _has_workers(client: Any) -> bool:
    try:
        return bool(client.scheduler_info()["workers"])
    except OSError:
        return False  # the scheduler does not answer


@dataclass(frozen=True, slots=True)
class _Leaf(Generic[InputT, ResultT]):
    """A task that returns its failure instead of raising it; it is sent to workers once."""

    task: Callable[[InputT], ResultT]

    def __call__(self, index: int, given: InputT) -> Total[ResultT]:
        return _result(self.task, index, given)
