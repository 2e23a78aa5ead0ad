"""Owns the rows L1 to L9 of the list of bug classes: what went wrong in comparable loops does not here."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable

import erlang
import pytest


def test_l1_a_task_with_a_sleep_completes(loop: AbstractEventLoop) -> None:
    async def nap() -> str:
        await asyncio.sleep(0.01)
        return "slept"

    assert loop.run_until_complete(nap()) == "slept"


def test_l1_the_timers_of_two_loops_in_two_threads_fire_each_on_its_own(
    factory: Callable[[], AbstractEventLoop],
) -> None:
    seen: dict[int, list[int]] = {}

    def work() -> None:
        loop = factory()
        me = threading.get_ident()
        seen[me] = []

        def tick(left: int) -> None:
            seen[me].append(threading.get_ident())
            if left:
                loop.call_later(0.001, tick, left - 1)
            else:
                loop.stop()

        loop.call_later(0.001, tick, 20)
        loop.run_forever()
        loop.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 3
    assert all(ticks == [thread] * 21 for thread, ticks in seen.items())


def test_l2_work_posted_while_the_loop_is_busy_runs_without_another_wakeup(loop: AbstractEventLoop) -> None:
    done: list[int] = []
    posted = threading.Event()

    def post() -> None:
        for i in range(100):
            loop.call_soon_threadsafe(done.append, i)
        loop.call_soon_threadsafe(loop.stop)
        posted.set()

    thread = threading.Thread(target=post)
    loop.call_soon(thread.start)
    loop.call_soon(posted.wait)
    start = time.monotonic()
    loop.run_forever()
    thread.join()
    assert done == list(range(100))
    assert time.monotonic() - start < 5


def test_l2_a_post_wakes_a_loop_that_waits(loop: AbstractEventLoop) -> None:
    late = loop.call_later(10, loop.stop)
    thread = threading.Timer(0.02, loop.call_soon_threadsafe, (loop.stop,))
    thread.start()
    start = time.monotonic()
    loop.run_forever()
    thread.join()
    late.cancel()
    assert time.monotonic() - start < 5


def test_l3_none_of_many_queued_callbacks_is_lost_or_out_of_order(loop: AbstractEventLoop) -> None:
    done: list[int] = []
    for i in range(10_000):
        (loop.call_soon if i % 3 else loop.call_soon_threadsafe)(done.append, i)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert done == list(range(10_000))


def test_l4_a_handle_cancelled_after_it_ran_cancels_nobody_else(loop: AbstractEventLoop) -> None:
    done: list[int] = []
    old = [loop.call_soon(done.append, i) for i in range(100)]
    old += [loop.call_later(0, done.append, i) for i in range(100, 200)]
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    new = [loop.call_soon(done.append, i) for i in range(200, 300)]
    assert {id(handle) for handle in old}.isdisjoint(id(handle) for handle in new)
    for handle in old:
        handle.cancel()
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert sorted(done) == list(range(300))


@pytest.mark.parametrize("delay", [0.0, 1e-9, 0.0001, 0.00049, 0.0011, 0.0015, 0.00999])
def test_l5_no_timer_fires_early(loop: AbstractEventLoop, delay: float) -> None:
    early: list[float] = []
    left = 20

    def fired(when: float) -> None:
        nonlocal left
        # The stdlib counts what is due within the resolution of the clock, a nanosecond, as due.
        if loop.time() + 1e-9 < when:
            early.append(when - loop.time())
        left -= 1
        if left == 0:
            loop.stop()

    for _ in range(left):
        when = loop.time() + delay
        loop.call_at(when, fired, when)
    loop.run_forever()
    assert early == []


def test_l6_thirty_thousand_timers_due_at_once_all_fire(loop: AbstractEventLoop) -> None:
    if loop.get_debug():
        pytest.skip("a stack trace per timer takes a minute")
    fired = 0

    def fire() -> None:
        nonlocal fired
        fired += 1

    for _ in range(30_000):
        loop.call_later(0.001, fire)
    loop.call_soon(time.sleep, 0.01)
    loop.call_later(0.05, loop.stop)
    loop.run_forever()
    assert fired == 30_000


IDLE = """
import erlang, time

loop = erlang.new_event_loop()
loop.call_later(0.5, loop.stop)
before = time.process_time()
loop.run_forever()
print(loop._native_stats()["wakeups"], time.process_time() - before)
loop.close()
"""


@pytest.mark.own_process
def test_l7_an_idle_loop_does_not_wake_up() -> None:
    # In a process of its own: the end of a child of another test is a signal, and that a wake-up.
    command = [sys.executable, "-c", IDLE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    wakeups, seconds = done.stdout.split()
    assert int(wakeups) == 1
    assert float(seconds) < 0.1


def test_l8_events_of_two_loops_reach_their_own_readers(factory: Callable[[], AbstractEventLoop]) -> None:
    wrong: list[str] = []

    def work(name: str) -> None:
        loop = factory()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        left = 200

        def readable() -> None:
            nonlocal left
            if asyncio.get_running_loop() is not loop or ours.recv(100) != name.encode():
                wrong.append(name)
            left -= 1
            if left:
                theirs.send(name.encode())
            else:
                loop.stop()

        loop.add_reader(ours, readable)
        theirs.send(name.encode())
        loop.run_forever()
        loop.remove_reader(ours)
        ours.close()
        theirs.close()
        loop.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_l9_the_clock_goes_on_while_the_loop_is_stopped(loop: AbstractEventLoop) -> None:
    loop.call_soon(loop.stop)
    loop.run_forever()
    before = loop.time()
    time.sleep(0.002)
    assert before + 0.002 <= loop.time()
    assert loop.time() == pytest.approx(time.monotonic(), abs=0.1)


def test_l9_a_loop_does_not_run_inside_itself_or_another(loop: AbstractEventLoop) -> None:
    if sys.version_info[:3] == (3, 13, 0) and not isinstance(loop, erlang.ErlangEventLoop):
        pytest.skip("3.13.0 takes a running loop apart when it is run again")
    errors: list[str] = []

    def again() -> None:
        other = type(loop)()
        for inner in (loop, other):
            try:
                inner.run_forever()
            except RuntimeError as error:
                errors.append(str(error))
        other.close()
        loop.stop()

    loop.call_soon(again)
    loop.run_forever()
    assert errors == [
        "This event loop is already running",
        "Cannot run the event loop while another loop is running",
    ]


def test_f1_a_reused_fd_number_does_not_get_the_events_of_its_former_owner() -> None:
    loop = erlang.new_event_loop()
    old: list[str] = []
    new: list[str] = []
    first, peer = socket.socketpair()
    loop.add_reader(first.fileno(), old.append, "old")
    number = first.fileno()
    first.close()
    second, other = socket.socketpair()
    assert number in (second.fileno(), other.fileno())
    mine, his = (second, other) if second.fileno() == number else (other, second)
    loop.add_writer(mine.fileno(), new.append, "new")
    peer.close()
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert (old, new) == ([], ["new"])
    loop.remove_writer(mine.fileno())
    mine.close()
    his.close()
    loop.close()


def test_f8_a_cancelled_sock_operation_leaves_no_registration(loop: AbstractEventLoop) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    async def work() -> None:
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(loop.sock_recv(ours, 10), 0.002)
        assert not loop.remove_reader(ours)
        theirs.send(b"late")
        assert await loop.sock_recv(ours, 10) == b"late"

    loop.run_until_complete(work())
    ours.close()
    theirs.close()


def test_f9_fds_above_1024_work(loop: AbstractEventLoop) -> None:
    import fcntl

    read, write = os.pipe()
    high = fcntl.fcntl(read, fcntl.F_DUPFD_CLOEXEC, 1500)
    loop.add_reader(high, loop.stop)
    os.write(write, b"x")
    loop.run_forever()
    assert loop.remove_reader(high)
    for fd in (read, write, high):
        os.close(fd)


def test_t6_call_later_of_zero_is_a_timer_handle(loop: AbstractEventLoop) -> None:
    handle = loop.call_later(0, print)
    assert isinstance(handle, asyncio.TimerHandle)
    assert handle.when() <= loop.time()
    handle.cancel()


def test_t6_an_overdue_timer_does_not_wait_for_the_next_event(loop: AbstractEventLoop) -> None:
    loop.call_later(-1, loop.stop)
    start = time.monotonic()
    loop.run_forever()
    assert time.monotonic() - start < 1


@pytest.mark.own_process
def test_t10_the_handler_of_a_child_is_the_users_own(loop: AbstractEventLoop) -> None:
    import signal

    before = signal.getsignal(signal.SIGCHLD)

    async def spawn() -> int:
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", "raise SystemExit(3)")
        return await child.wait()

    assert loop.run_until_complete(spawn()) == 3
    assert signal.getsignal(signal.SIGCHLD) is before
