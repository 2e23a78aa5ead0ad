"""Contexts: what a callback runs in is its own, kept where it is called again, and not kept for longer."""

import asyncio
import contextvars
import gc
import socket
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

Loop = asyncio.AbstractEventLoop
NUMBER: contextvars.ContextVar[int] = contextvars.ContextVar("number")
HOLDER: contextvars.ContextVar[Any] = contextvars.ContextVar("holder", default=None)


def note(seen: list[int | None], value: int) -> None:
    """Writes down what is set here, then sets something else."""
    seen.append(NUMBER.get(None))
    NUMBER.set(value)


async def turn() -> None:
    """A turn in which all that was ready has run."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_variables_of_one_callback_are_not_seen_by_the_next(loop: Loop) -> None:
    seen: list[int | None] = []
    for value in range(3):
        loop.call_soon(note, seen, value)
        loop.call_soon_threadsafe(note, seen, value)
        loop.call_later(0, note, seen, value)
    await asyncio.sleep(0.01)
    assert seen == [None] * 9
    assert NUMBER.get(None) is None


async def test_a_callback_sees_what_was_set_when_it_was_scheduled(loop: Loop) -> None:
    seen: list[int | None] = []
    for value in range(3):
        NUMBER.set(value)
        loop.call_soon(note, seen, -1)
    NUMBER.set(7)
    await turn()
    assert seen == [0, 1, 2]
    assert NUMBER.get() == 7


async def test_a_reset_variable_and_a_kept_token_change_nothing_for_others(loop: Loop) -> None:
    seen: list[int | None] = []
    tokens: list[contextvars.Token[int]] = []

    def set_and_reset() -> None:
        seen.append(NUMBER.get(None))
        NUMBER.reset(NUMBER.set(1))

    def keep_token() -> None:
        seen.append(NUMBER.get(None))
        tokens.append(NUMBER.set(2))

    def reset_foreign() -> None:
        seen.append(NUMBER.get(None))
        with pytest.raises(ValueError, match="different Context"):
            NUMBER.reset(tokens.pop())

    for callback in (set_and_reset, keep_token, reset_foreign, set_and_reset):
        loop.call_soon(callback)
    await turn()
    assert seen == [None] * 4


async def test_a_context_that_raises_is_not_seen_by_the_next(loop: Loop) -> None:
    seen: list[int | None] = []
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: errors.append(context))

    def fail() -> None:
        note(seen, 1)
        raise ZeroDivisionError

    loop.call_soon(fail)
    loop.call_soon(note, seen, 2)
    await turn()
    assert seen == [None, None]
    assert [type(error["exception"]) for error in errors] == [ZeroDivisionError]


@pytest.mark.parametrize("end", ["stop", "raise", "exit"])
def test_whoever_runs_the_loop_is_in_their_own_context_afterwards(loop: Loop, end: str) -> None:
    seen: list[int | None] = []

    def last() -> None:
        seen.append(NUMBER.get(None))
        NUMBER.set(2)
        loop.stop()
        if end == "exit":
            raise SystemExit(3)
        if end == "raise":
            raise ZeroDivisionError

    def run() -> int | None:
        for _ in range(3):
            loop.call_soon(seen.append, 0)
        loop.call_soon(last)
        loop.call_soon(seen.append, 1)
        NUMBER.set(1)
        if end == "exit":
            with pytest.raises(SystemExit):
                loop.run_forever()
        else:
            loop.run_forever()
        return NUMBER.get(None)

    loop.set_exception_handler(lambda _loop, context: seen.append(NUMBER.get(None)))
    assert contextvars.Context().run(run) == 1
    # Since 3.12 a report is made in the context of the callback. What comes after an exception that ends the
    # loop waits.
    reported = 2 if sys.version_info >= (3, 12) else 1
    after = {"stop": [1], "raise": [reported, 1], "exit": []}[end]
    assert seen == [0, 0, 0, None, *after]
    loop.run_until_complete(asyncio.sleep(0))


async def test_callbacks_with_and_without_variables_take_turns(loop: Loop) -> None:
    ours, theirs = socket.socketpair()
    transport, protocol = await loop.create_connection(Noting, sock=ours)
    with theirs:
        theirs.send(b"\1")
        seen: list[int | None] = []
        given = contextvars.Context()
        given.run(NUMBER.set, 10)
        for value in range(3):
            loop.call_soon(note, seen, value)
            loop.call_soon(note, seen, 11 + value, context=given)
            loop.call_soon(seen.append, -1)
            loop.call_later(0, note, seen, value)
        await asyncio.wait_for(protocol.read.wait(), 30)
        loop.call_soon(note, seen, 4)
        await turn()
        assert [value for value in seen if value != -1] == [None, 10, None, 11, None, 12] + [None] * 4
        assert protocol.seen == [None]
        transport.close()
        await turn()


async def test_the_context_of_a_waiting_handle_is_the_one_it_runs_in(loop: Loop) -> None:
    seen: list[int | None] = []
    handle = loop.call_soon(note, seen, 5)
    context = handle._context  # type: ignore[attr-defined]
    assert handle._context is context  # type: ignore[attr-defined]
    context.run(NUMBER.set, 4)
    await turn()
    assert seen == [4]
    assert context[NUMBER] == 5


async def test_a_reader_keeps_the_variables_that_it_has_set(loop: Loop) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        seen: list[int | None] = []
        read = asyncio.Event()

        def on_byte() -> None:
            note(seen, ours.recv(1)[0])
            read.set()

        loop.add_reader(ours, on_byte)
        for byte in range(3):
            read.clear()
            theirs.send(bytes([byte]))
            await read.wait()
            loop.call_soon(note, [], 99)
            await turn()
        loop.remove_reader(ours)
    assert seen == [None, 0, 1]


class Noting(asyncio.Protocol):
    """Writes down which variables it finds whenever data comes."""

    def __init__(self) -> None:
        self.seen: list[int | None] = []
        self.read = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        note(self.seen, data[0])
        self.read.set()


async def test_each_protocol_keeps_the_variables_that_it_has_set(loop: Loop) -> None:
    protocols = []
    peers = []
    for _ in range(2):
        ours, theirs = socket.socketpair()
        transport, protocol = await loop.create_connection(Noting, sock=ours)
        protocols.append((transport, protocol))
        peers.append(theirs)
    for byte in range(3):
        for (_, protocol), theirs in zip(protocols, peers, strict=True):
            protocol.read.clear()
            theirs.send(bytes([byte]))
            await protocol.read.wait()
    for (transport, protocol), theirs in zip(protocols, peers, strict=True):
        assert protocol.seen == [None, 0, 1]
        transport.close()
        theirs.close()
    await turn()


class Holder:
    """Something that has its own handle, and is a variable where that was made."""

    handle: asyncio.Handle


SCHEDULED: dict[str, Callable[[Loop], asyncio.Handle]] = {
    "soon": lambda loop: loop.call_soon(int),
    "threadsafe": lambda loop: loop.call_soon_threadsafe(int),
    "later": lambda loop: loop.call_later(0, int),
    "failed": lambda loop: loop.call_soon(int, "no number"),
}


@pytest.mark.parametrize("how", [*SCHEDULED, "cancelled"])
async def test_a_handle_that_is_done_keeps_nothing_alive(loop: Loop, how: str) -> None:
    loop.set_exception_handler(lambda _loop, _context: None)
    holder = Holder()
    token = HOLDER.set(holder)
    if how == "cancelled":
        holder.handle = loop.call_later(0.001, int)
        holder.handle.cancel()
    else:
        holder.handle = SCHEDULED[how](loop)
    HOLDER.reset(token)
    found = weakref.ref(holder)
    del holder, token
    await asyncio.sleep(0.01)
    gc.collect()
    assert found() is None


async def test_handles_by_the_thousand_each_run_once(loop: Loop) -> None:
    for _ in range(3):
        seen: list[int] = []
        kept = [loop.call_soon(seen.append, index) for index in range(3_000)]
        for handle in kept[::3]:
            handle.cancel()
        del kept[::2]
        await turn()
        assert seen == [index for index in range(3_000) if index % 3]
        assert all(
            handle.cancelled() == (index % 3 == 0)
            for index, handle in zip(range(1, 3_000, 2), kept, strict=True)
        )
