"""What is not I/O: contexts, tasks, exception handlers, generators, executors, debug mode, other threads,
lookups.
"""

import asyncio
import concurrent.futures
import contextvars
import gc
import logging
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import loops
import pytest
from peers import LOCAL, Errors, Loop, pair, settled, turns

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="default")


async def test_callbacks_run_in_the_context_of_their_caller(loop: Loop) -> None:
    seen: list[str] = []
    VARIABLE.set("mine")
    other = contextvars.copy_context()
    other.run(VARIABLE.set, "other")
    left, right = pair()
    done = loop.create_future()

    def read() -> None:
        seen.append(VARIABLE.get())
        loop.remove_reader(left)
        done.set_result(None)

    loop.call_soon(lambda: seen.append(VARIABLE.get()))
    loop.call_soon(lambda: seen.append(VARIABLE.get()), context=other)
    loop.call_later(0, lambda: seen.append(VARIABLE.get()), context=other)
    loop.call_soon_threadsafe(lambda: seen.append(VARIABLE.get()))
    await turns(3)
    loop.add_reader(left, read)
    right.send(b"x")
    VARIABLE.set("changed")
    await done
    assert sorted(seen) == ["mine", "mine", "mine", "other", "other"]
    left.close()
    right.close()


async def test_tasks_have_contexts_of_their_own(loop: Loop) -> None:
    async def change() -> str:
        VARIABLE.set("inner")
        await asyncio.sleep(0)
        return VARIABLE.get()

    VARIABLE.set("outer")
    assert await loop.create_task(change()) == "inner"
    assert VARIABLE.get() == "outer"
    given = contextvars.copy_context()
    assert await loop.create_task(change(), context=given) == "inner"
    assert given[VARIABLE] == "inner"


async def test_order_of_callbacks(loop: Loop) -> None:
    order: list[int] = []
    loop.call_soon(order.append, 1)
    loop.call_soon(loop.call_soon, order.append, 4)
    loop.call_soon(order.append, 2)
    await turns(3)
    assert order == [1, 2, 4]
    when = loop.time() + 0.01
    done = loop.create_future()
    times: list[int] = []
    for number in (3, 1, 2):
        loop.call_at(when + number / 1000, times.append, number)
    loop.call_at(when + 0.005, done.set_result, None)
    await done
    assert times == [1, 2, 3]


@pytest.mark.parametrize("before", [0, 10, 300])
async def test_what_becomes_ready_comes_before_what_is_called_later(loop: Loop, before: int) -> None:
    """In a loop that has work all the time, whatever it was at before."""
    near, far = pair()
    order: list[str] = []

    def read() -> None:
        order.append("read")
        loop.remove_reader(near)

    def step(left: int) -> None:
        order.append("step")
        if left:
            loop.call_soon(step, left - 1)

    await turns(before)
    far.send(b"x")
    loop.add_reader(near, read)
    step(5)
    await turns(7)
    assert order == ["step", "step", "read", *["step"] * 4]

    order.clear()
    await asyncio.sleep(0.001)
    await turns(min(before, 10))
    loop.add_reader(near, read)
    step(5)
    await turns(7)
    assert order == ["step", "step", "read", *["step"] * 4]
    near.close()
    far.close()


async def test_what_a_peer_sends_meanwhile_comes_before_what_is_called_later(loop: Loop) -> None:
    near, far = pair()
    order: list[str] = []

    def read() -> None:
        near.recv(10)
        order.append("read")

    loop.add_reader(near, read)
    for _ in range(5):
        far.send(b"x")
        await asyncio.sleep(0)
        order.append("turn")
        await turns(2)
        order.append("turns")
    assert order == ["turn", "read", "turns"] * 5
    loop.remove_reader(near)
    near.close()
    far.close()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="came with 3.12")
async def test_eager_tasks(loop: Loop) -> None:
    loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009
    steps: list[str] = []

    async def quick() -> str:
        steps.append("ran")
        return "result"

    async def slow() -> str:
        steps.append("began")
        await asyncio.sleep(0)
        return "late"

    one = loop.create_task(quick())
    assert one.done() and steps == ["ran"]
    two = loop.create_task(slow())
    assert not two.done() and steps == ["ran", "began"]
    assert (await one, await two) == ("result", "late")
    loop.set_task_factory(None)


async def test_task_factory(loop: Loop) -> None:
    made: list[Any] = []

    def factory(loop: Loop, coro: Any, **options: Any) -> Any:
        task = asyncio.Task(coro, loop=loop, **options)
        made.append(task)
        return task

    loop.set_task_factory(factory)
    assert loop.get_task_factory() is factory
    task = loop.create_task(turns(1), name="named")
    assert made == [task] and task.get_name() == "named"
    await task
    loop.set_task_factory(None)


async def test_a_callback_that_raises_is_reported_with_its_handle(loop: Loop, errors: Errors) -> None:
    def fail() -> None:
        raise LookupError("callback")

    handle = loop.call_soon(fail)
    await turns(2)
    (context,) = errors.take()
    assert isinstance(context["exception"], LookupError)
    assert context["handle"] is handle
    assert "Exception in callback" in context["message"] and "fail" in context["message"]


def test_the_default_handler_logs(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    loop.set_exception_handler(None)
    assert loop.get_exception_handler() is None
    loop.call_soon(lambda: 1 / 0)
    loop.run_until_complete(turns(2))
    (record,) = [
        record for record in caplog.records if record.name == "asyncio" and record.levelno == logging.ERROR
    ]
    assert "Exception in callback" in record.getMessage()
    assert record.exc_info and record.exc_info[0] is ZeroDivisionError


def test_a_handler_that_raises_is_logged(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    def broken(loop: Loop, context: dict[str, Any]) -> None:
        raise RuntimeError("the handler itself")

    loop.set_exception_handler(broken)
    loop.call_soon(lambda: 1 / 0)
    loop.run_until_complete(turns(2))
    assert any("Unhandled error in exception handler" in record.getMessage() for record in caplog.records)


async def test_a_task_whose_exception_nobody_took(loop: Loop, errors: Errors) -> None:
    async def fail() -> None:
        raise LookupError("nobody")

    task = loop.create_task(fail())
    await turns(2)
    del task
    gc.collect()
    (context,) = errors.take()
    assert "never retrieved" in context["message"]
    assert isinstance(context["exception"], LookupError)


def test_generators_left_open_are_closed(loop: Loop) -> None:
    closed: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    async def main() -> None:
        generator = numbers()
        async for _ in generator:
            break
        kept.append(generator)

    kept: list[Any] = []
    loop.run_until_complete(main())
    assert closed == []
    loop.run_until_complete(loop.shutdown_asyncgens())
    assert closed == ["closed"]


def test_a_generator_that_is_collected_is_closed_by_the_loop(loop: Loop) -> None:
    closed = loop.create_future()

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            closed.set_result(None)

    async def main() -> None:
        async for _ in numbers():
            break
        gc.collect()
        await closed

    loop.run_until_complete(main())


async def test_executors(loop: Loop) -> None:
    assert await loop.run_in_executor(None, threading.get_ident) != threading.get_ident()
    with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="own") as own:
        name = await loop.run_in_executor(own, lambda: threading.current_thread().name)
    assert name.startswith("own")
    with pytest.raises(ZeroDivisionError):
        await loop.run_in_executor(None, lambda: 1 / 0)
    started = threading.Event()
    release = threading.Event()

    def block() -> str:
        started.set()
        release.wait(20)
        return "done"

    future = loop.run_in_executor(None, block)
    while not started.is_set():
        await asyncio.sleep(0)
    future.cancel()
    release.set()
    assert isinstance(await settled(future), asyncio.CancelledError)
    assert await asyncio.gather(*(asyncio.to_thread(int, number) for number in range(50))) == list(range(50))


def test_callbacks_from_many_threads(loop: Loop) -> None:
    count = 0
    finished = loop.create_future()

    def bump() -> None:
        nonlocal count
        count += 1
        if count == 8000:
            finished.set_result(None)

    def post() -> None:
        for _ in range(1000):
            loop.call_soon_threadsafe(bump)

    threads = [threading.Thread(target=post) for _ in range(8)]
    for thread in threads:
        thread.start()
    loop.run_until_complete(asyncio.wait_for(finished, 30))
    for thread in threads:
        thread.join()
    assert count == 8000


@pytest.mark.skipif(sys.version_info < (3, 14), reason="came with 3.14")
def test_who_cancels_a_threadsafe_call_waits_for_its_callback(loop: Loop) -> None:
    began, may_end = threading.Event(), threading.Event()
    order: list[str] = []

    def callback() -> None:
        began.set()
        may_end.wait(60)
        order.append("ended")

    def cancel() -> None:
        handle = loop.call_soon_threadsafe(callback)
        began.wait(60)
        timer = threading.Timer(0.05, may_end.set)
        timer.start()
        handle.cancel()
        order.append("cancelled")
        timer.join()
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=cancel)
    thread.start()
    loop.run_forever()
    thread.join()
    assert order == ["ended", "cancelled"]


def test_a_threadsafe_call_may_cancel_itself(loop: Loop) -> None:
    seen: list[bool] = []

    def callback() -> None:
        handle.cancel()
        seen.append(handle.cancelled())
        loop.stop()

    handle = loop.call_soon_threadsafe(callback)
    loop.run_forever()
    assert seen == [True]


@pytest.mark.skipif(sys.version_info < (3, 14), reason="came with 3.14")
def test_no_threadsafe_call_runs_once_its_cancel_has_returned(loop: Loop) -> None:
    closed = [False] * 2000
    late: list[int] = []

    def callback(index: int) -> None:
        if closed[index]:
            late.append(index)

    def race() -> None:
        for index in range(len(closed)):
            handle = loop.call_soon_threadsafe(callback, index)
            handle.cancel()
            closed[index] = True
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=race)
    thread.start()
    loop.run_forever()
    thread.join()
    assert late == []


def test_stop_from_another_thread_wakes_the_loop(loop: Loop) -> None:
    thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(loop.stop))
    thread.start()
    loop.run_forever()
    thread.join()
    assert not loop.is_running()


async def test_run_coroutine_threadsafe(loop: Loop) -> None:
    async def work() -> int:
        await asyncio.sleep(0.001)
        return 42

    def thread() -> int:
        return asyncio.run_coroutine_threadsafe(work(), loop).result(20)

    assert await asyncio.to_thread(thread) == 42


def test_slow_callbacks_are_named_in_debug_mode(
    factory: loops.Factory, caplog: pytest.LogCaptureFixture
) -> None:
    loop = factory()
    loop.set_debug(True)
    loop.slow_callback_duration = 0.01

    def slow_one() -> None:
        until = time.monotonic() + 0.02
        while time.monotonic() < until:
            pass

    loop.call_soon(slow_one)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any("slow_one" in text and "took" in text for text in warned), warned


def test_what_debug_mode_adds(factory: loops.Factory) -> None:
    loop = factory()
    loop.set_debug(True)
    assert loop.get_debug()
    handle = loop.call_soon(int)
    assert __file__.rsplit("/", 1)[-1] in repr(handle)
    outcome: list[BaseException] = []

    def elsewhere() -> None:
        try:
            loop.call_soon(int)
        except RuntimeError as error:
            outcome.append(error)
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=elsewhere)
    loop.call_soon(thread.start)
    loop.run_forever()
    thread.join()
    loop.close()
    assert "Non-thread-safe" in str(outcome[0])


async def test_lookups(loop: Loop) -> None:
    found = await loop.getaddrinfo(LOCAL, 80, type=socket.SOCK_STREAM)
    assert found == socket.getaddrinfo(LOCAL, 80, type=socket.SOCK_STREAM)
    assert await loop.getaddrinfo("localhost", None, family=socket.AF_INET) == socket.getaddrinfo(
        "localhost", None, family=socket.AF_INET
    )
    assert await loop.getnameinfo((LOCAL, 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV) == (LOCAL, "80")
    with pytest.raises(socket.gaierror):
        await loop.getaddrinfo("name.invalid", 80, flags=socket.AI_NUMERICHOST)


def forget(things: list[Any]) -> None:
    things.clear()
    gc.collect()


def test_a_loop_left_open_complains(factory: loops.Factory) -> None:
    made = [factory()]
    with pytest.warns(ResourceWarning, match="unclosed event loop"):
        forget(made)


def test_running_and_closed(loop: Loop) -> None:
    assert not loop.is_running() and not loop.is_closed()
    seen: list[Any] = []
    loop.call_soon(lambda: seen.append((loop.is_running(), asyncio.get_running_loop() is loop)))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == [(True, True)]
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    text = repr(loop)
    assert "running=False" in text and "closed=False" in text


def test_run_forever_again_and_again(loop: Loop) -> None:
    ran: list[int] = []
    for number in range(50):
        loop.call_soon(ran.append, number)
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert ran == list(range(50))


def test_an_exception_leaves_the_loop_usable(loop: Loop) -> None:
    async def fail() -> None:
        raise LookupError

    for _ in range(3):
        with pytest.raises(LookupError):
            loop.run_until_complete(fail())
    assert loop.run_until_complete(asyncio.sleep(0, "fine")) == "fine"


def test_classes_that_replace_those_of_asyncio_are_used(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    class Task(asyncio.Task[None]):
        pass

    class Future(asyncio.Future[None]):
        pass

    async def main() -> None:
        pass

    loop.run_until_complete(loop.create_task(main()))
    loop.create_future()
    monkeypatch.setattr(asyncio.tasks, "Task", Task)
    monkeypatch.setattr(asyncio.futures, "Future", Future)
    task = loop.create_task(main())
    assert type(task) is Task
    assert type(loop.create_future()) is Future
    loop.run_until_complete(task)


def test_a_threadsafe_call_is_of_the_class_that_asyncio_has_for_it(loop: Loop) -> None:
    kind = getattr(asyncio.events, "_ThreadSafeHandle", asyncio.Handle)
    handle = loop.call_soon_threadsafe(print)
    assert isinstance(handle, kind)
    assert repr(handle).startswith(f"<{kind.__name__} ")
    handle.cancel()
