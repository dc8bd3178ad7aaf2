"""What asyncio programs do, each as a coroutine function whose result can be compared."""

from __future__ import annotations

import asyncio
import collections.abc
import contextvars
import functools
import gc
import inspect
import io
import logging
import sys
import traceback
import types
import weakref
from typing import Any

NUMBER: contextvars.ContextVar[int] = contextvars.ContextVar("NUMBER", default=0)


async def _value(result: object = 42) -> object:
    await asyncio.sleep(0)
    return result


async def _fail() -> None:
    await asyncio.sleep(0)
    raise KeyError("x")


async def _sleep() -> None:
    try:
        await asyncio.sleep(10)
    finally:
        pass


def _frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


async def _outcome(task: asyncio.Task[Any]) -> object:
    """Return what a task came to, and through which frames."""
    try:
        return repr(await task)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is what is compared
        return type(error).__name__, error.args, _frames(error), task.cancelled()


async def result_and_name() -> object:
    task = asyncio.create_task(_value(), name="named")
    return await task, task.get_name()


async def default_name_has_a_number() -> object:
    task = asyncio.create_task(_value())
    await task
    return task.get_name().rstrip("0123456789")


async def immediate_none() -> object:
    async def immediate() -> None:
        return None

    return await asyncio.create_task(immediate())


async def tuple_result() -> object:
    return await asyncio.create_task(_value((1, 2)))


async def exception_as_result() -> object:
    return repr(await asyncio.create_task(_value(ValueError("v"))))


async def stop_iteration_as_result() -> object:
    return repr(await asyncio.create_task(_value(StopIteration(5))))


async def stop_iteration_raised() -> object:
    async def stop() -> None:
        raise StopIteration(3)

    return await _outcome(asyncio.create_task(stop()))


async def failure_has_its_own_frames_only() -> object:
    return await _outcome(asyncio.create_task(_fail()))


async def cancellation_with_a_message() -> object:
    task = asyncio.create_task(_sleep())
    await asyncio.sleep(0)
    task.cancel("why")
    return await _outcome(task)


async def cancellation_swallowed() -> object:
    async def swallow() -> str:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return "swallowed"
        return "slept"

    task = asyncio.create_task(swallow())
    await asyncio.sleep(0)
    task.cancel()
    return await _outcome(task)


async def cancellation_survived() -> object:
    async def survive() -> str:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "went on"

    task = asyncio.create_task(survive())
    await asyncio.sleep(0)
    task.cancel()
    return await _outcome(task), task.cancelling()


async def cancellation_before_the_start() -> object:
    task = asyncio.create_task(_sleep())
    task.cancel()
    return await _outcome(task)


async def cancellation_of_oneself() -> object:
    async def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    return await _outcome(asyncio.create_task(cancel()))


async def wait_for_times_out() -> object:
    try:
        await asyncio.wait_for(asyncio.sleep(5), 0.001)
    except TimeoutError as error:
        return repr(error)
    return None


async def timeout_block_times_out() -> object:
    try:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(5)
    except TimeoutError as error:
        task = asyncio.current_task()
        assert task is not None
        return repr(error), task.cancelling()
    return None


async def shield_keeps_the_inner_task() -> object:
    inner = asyncio.create_task(_value())
    outer = asyncio.ensure_future(asyncio.shield(inner))
    await asyncio.sleep(0)
    outer.cancel()
    return await inner


async def gather_of_two() -> object:
    return await asyncio.gather(_value(1), _value(2), return_exceptions=True)


async def task_group_of_three() -> object:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_value(number)) for number in range(3)]
    return [task.result() for task in tasks]


async def task_group_fails() -> object:
    seen = None
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_sleep())
            group.create_task(_fail())
    except* KeyError as errors:
        seen = repr(errors.exceptions)
    return seen


async def generator_based_awaitable() -> object:
    @types.coroutine
    def bare() -> Any:
        return (yield)

    async def wait() -> object:
        return await bare()

    return await asyncio.create_task(wait())


async def bad_yield() -> object:
    @types.coroutine
    def five() -> Any:
        yield 5

    async def wait() -> None:
        await five()

    return (await _outcome(asyncio.create_task(wait())))[1]  # type: ignore[index] # a failure


async def yield_instead_of_yield_from() -> object:
    @types.coroutine
    def future() -> Any:
        yield asyncio.get_running_loop().create_future()

    async def wait() -> None:
        await future()

    outcome = await _outcome(asyncio.create_task(wait()))
    return "yield was used instead of yield from" in str(outcome)


async def coroutine_of_a_task_looks_like_one() -> object:
    task = asyncio.create_task(_sleep())
    await asyncio.sleep(0)
    coro: Any = task.get_coro()
    given = _sleep()
    own = asyncio.create_task(given)
    seen = (
        own.get_coro() is given,
        asyncio.iscoroutine(coro),
        inspect.iscoroutine(coro),
        isinstance(coro, types.CoroutineType),
        isinstance(coro, collections.abc.Coroutine),
        inspect.isawaitable(coro),
        inspect.getcoroutinestate(coro),
        coro.__name__,
        coro.__qualname__,
        coro.cr_frame.f_code is _sleep.__code__,
        coro.cr_await is not None,
        coro.cr_code.co_name,
        repr(coro).split(" at ")[0],
    )
    task.cancel()
    own.cancel()
    return seen


async def stack_and_repr_of_a_task() -> object:
    task = asyncio.create_task(_sleep(), name="shown")
    await asyncio.sleep(0)
    printed = io.StringIO()
    task.print_stack(file=printed)
    seen = (
        [frame.f_code.co_name for frame in task.get_stack()],
        printed.getvalue(),
        "_sleep() running at" in repr(task),
    )
    task.cancel()
    return seen


async def context_variables_stay_apart() -> object:
    async def set_number() -> int:
        NUMBER.set(7)
        await asyncio.sleep(0)
        return NUMBER.get()

    return await asyncio.create_task(set_number()), NUMBER.get()


async def arguments_are_freed() -> object:
    class Thing:
        pass

    async def hold(thing: Thing, *, fail: bool) -> None:
        await asyncio.sleep(0)
        if fail:
            raise ValueError(thing)

    freed = []
    for fail in (False, True):
        thing = Thing()
        reference = weakref.ref(thing)
        task = asyncio.create_task(hold(thing, fail=fail))
        await asyncio.wait([task])
        task.exception()
        del task, thing
        await asyncio.sleep(0)
        gc.collect()
        freed.append(reference() is None)
    return freed


async def current_task_is_the_task() -> object:
    async def name() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    return await asyncio.create_task(name(), name="abc")


async def threads_give_results() -> object:
    loop = asyncio.get_running_loop()
    return await asyncio.to_thread(lambda: 5), await loop.run_in_executor(None, int, "6")


async def threads_run_whatever_can_be_called() -> object:
    class Anything:
        def __getattr__(self, name: str) -> Anything:
            return Anything()

        def __call__(self) -> str:
            return "called"

    loop = asyncio.get_running_loop()
    partial = functools.partial(functools.partial(int, "7"), base=8)
    functions: list[Any] = [Anything(), partial, [].copy, dict]
    return [await loop.run_in_executor(None, function) for function in functions]


async def threads_fail() -> object:
    try:
        await asyncio.to_thread(int, "six")
    except ValueError as error:
        return str(error)
    return None


async def async_generators() -> object:
    async def numbers() -> Any:
        for number in range(3):
            yield number
            await asyncio.sleep(0)

    return [number async for number in numbers()]


async def locks_queues_and_conditions() -> object:
    lock, queue, seen = asyncio.Lock(), asyncio.Queue[int](1), []

    async def put() -> None:
        for number in range(4):
            async with lock:
                await queue.put(number)

    async def get() -> None:
        for _ in range(4):
            seen.append(await queue.get())  # noqa: PERF401 - a comprehension would not interleave

    await asyncio.gather(put(), get())
    return seen


async def streams_echo() -> object:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello\n")
    answer = await reader.read()
    writer.close()
    server.close()
    await server.wait_closed()
    return answer


async def slow_callback_is_told_of() -> object:
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 0

    async def slow() -> None:
        pass

    text = io.StringIO()
    handler = logging.StreamHandler(text)
    logger = logging.getLogger("asyncio")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.WARNING)
    propagate, logger.propagate = logger.propagate, False
    try:
        await asyncio.create_task(slow(), name="tortoise")
        await asyncio.sleep(0)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
        loop.set_debug(False)
    return "tortoise" in text.getvalue(), "slow()" in text.getvalue()


async def debug_says_where_a_task_was_made() -> object:
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    task: Any = asyncio.create_task(_value())
    loop.set_debug(False)
    await task
    frame = task._source_traceback[-1] if task._source_traceback else None
    return frame and (frame.name, frame.filename.rsplit("/", 1)[-1])


async def factory_is_asked() -> object:
    loop = asyncio.get_running_loop()
    asked = []

    def factory(loop: Any, coro: Any, **options: Any) -> Any:
        asked.append(coro.__name__)
        return asyncio.Task(coro, loop=loop, **options)

    loop.set_task_factory(factory)
    try:
        result = await asyncio.create_task(_value())
    finally:
        loop.set_task_factory(None)
    return result, asked


async def eager_tasks() -> object:
    if sys.version_info < (3, 12):
        return None
    loop = asyncio.get_running_loop()
    loop.set_task_factory(asyncio.eager_task_factory)

    async def at_once() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name().rstrip("0123456789")

    async def fail() -> None:
        raise KeyError("eager")

    try:
        done = asyncio.create_task(at_once(), name="eager")
        suspended = asyncio.create_task(_value(9))
        failed = asyncio.create_task(fail())
        return done.done(), done.result(), await suspended, await _outcome(failed)
    except NotImplementedError:
        return "no eager tasks here"
    finally:
        loop.set_task_factory(None)


async def pending_task_is_destroyed() -> object:
    loop = asyncio.get_running_loop()
    told: list[str] = []
    loop.set_exception_handler(lambda _, context: told.append(context["message"]))

    async def forever() -> None:
        await loop.create_future()

    task = loop.create_task(forever())
    await asyncio.sleep(0)
    del task
    gc.collect()
    await asyncio.sleep(0)
    loop.set_exception_handler(None)
    return told


async def failures_of_callbacks_are_reported() -> object:
    loop = asyncio.get_running_loop()
    results: list[object] = []

    def note(_: object, context: dict[str, Any]) -> None:
        error = context["exception"]
        message = context["message"].split(" at ")[0]
        handle = str(context["handle"]).split(" at ")[0].split()[-1]
        results.append((message, handle, type(error), _frames(error), repr(error.__context__)))

    def fail(number: int) -> None:
        NUMBER.set(number)
        raise ValueError(number)

    def cancel_and_fail() -> None:
        handle.cancel()
        fail(2)

    loop.set_exception_handler(note)
    loop.call_soon(fail, 1)
    handle = loop.call_soon(cancel_and_fail)
    try:
        fail(3)
    except ValueError:
        loop.call_later(0.0001, fail, 4)
    entered = contextvars.copy_context()
    loop.call_soon(entered.run, lambda: loop.call_soon(NUMBER.set, 5, context=entered))
    loop.call_soon(fail, 6, context=entered)
    # on a slow machine, a timer may be due before all of these have run
    for _ in range(4):
        await asyncio.sleep(0.001)
    loop.set_exception_handler(None)
    return results, entered.get(NUMBER), NUMBER.get()


async def callbacks_that_exit_end_the_loop() -> object:
    def leave() -> None:
        raise SystemExit(3)

    def run() -> object:
        loop = asyncio.new_event_loop()
        loop.call_soon(leave)
        try:
            loop.run_forever()
        except SystemExit as error:
            return error.code, _frames(error)
        finally:
            loop.close()
        return None

    return await asyncio.to_thread(run)


async def signature_of_create_task() -> object:
    loop = asyncio.get_running_loop()
    try:
        return str(inspect.signature(loop.create_task)), loop.create_task.__name__
    except ValueError as error:
        return str(error)[:12]


BEHAVIOURS = [
    value
    for name, value in list(globals().items())
    if isinstance(value, types.FunctionType) and not name.startswith("_")
]
