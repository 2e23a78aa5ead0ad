"""Stream transports, reading: what the protocol gets, in which context, and what it may do meanwhile."""

import asyncio
import contextvars
import logging
import socket
from typing import Any

import pytest
from peers import Buffered, Errors, Loop, Record, connect, pattern, turns

WHO = contextvars.ContextVar("WHO", default="nobody")


class Closing(Buffered):
    """Does something to its transport while a buffer is asked for."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.action = action

    def get_buffer(self, sizehint: int) -> bytearray:
        buffer = super().get_buffer(sizehint)
        getattr(self.transport, self.action)()
        return buffer


@pytest.mark.parametrize("action", ["pause_reading", "close", "abort"])
async def test_what_was_asked_for_is_still_read_when_get_buffer_ends_reading(loop: Loop, action: str) -> None:
    both = await connect(peer=lambda: Closing(action))
    both.client.transport.write(b"x" * 40)
    while "buffer_updated" not in both.peer.calls:
        await turns(1)
    await turns(5)
    assert both.peer.calls == ["get_buffer", "buffer_updated"]
    assert bytes(both.peer.data) == b"x" * 16
    await both.close()


@pytest.mark.parametrize(
    ("buffer", "message", "kind"),
    [
        (bytearray(), "Fatal error: protocol.get_buffer() call failed.", RuntimeError),
        (7, "Fatal error: protocol.get_buffer() call failed.", TypeError),
        (b"read-only", "Fatal read error on socket transport", TypeError),
    ],
)
async def test_a_buffer_that_cannot_be_used_ends_the_connection(
    loop: Loop, errors: Errors, buffer: Any, message: str, kind: type[BaseException]
) -> None:
    both = await connect(peer=Buffered)
    both.peer.buffer = buffer
    both.client.transport.write(b"data")
    assert isinstance(await both.peer.lost, kind)
    (context,) = errors.take()
    assert context["message"] == message
    assert isinstance(context["exception"], kind)
    assert context["protocol"] is both.peer
    await both.close()


async def test_a_buffer_may_be_resized_once_it_is_filled(loop: Loop) -> None:
    class Growing(Buffered):
        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            self.buffer.extend(bytes(16))

    both = await connect(peer=Growing)
    message = pattern(10_000)
    both.client.transport.write(message)
    while len(both.peer.data) < len(message):
        await turns(1)
    assert bytes(both.peer.data) == message
    await both.close()


@pytest.mark.parametrize("method", ["data_received", "eof_received"])
async def test_a_protocol_that_raises_is_reported_and_its_connection_ends(
    loop: Loop, errors: Errors, method: str
) -> None:
    both = await connect()

    def fail(*args: bytes) -> None:
        raise ZeroDivisionError(method)

    setattr(both.peer, method, fail)
    both.client.transport.write(b"data")
    if method == "eof_received":
        both.client.transport.write_eof()
    assert isinstance(await both.peer.lost, ZeroDivisionError)
    (context,) = errors.take()
    assert context["message"] == f"Fatal error: protocol.{method}() call failed."
    assert isinstance(context["transport"], asyncio.Transport)
    await both.close()


def test_what_a_protocol_raises_to_end_the_loop_ends_it(loop: Loop) -> None:
    class Raises(Record):
        def data_received(self, data: bytes) -> None:
            raise SystemExit(7)

    both = loop.run_until_complete(connect(peer=Raises))
    both.client.transport.write(b"data")
    with pytest.raises(SystemExit):
        loop.run_forever()
    loop.run_until_complete(both.close())


async def test_callbacks_run_in_the_context_the_transport_was_made_in(loop: Loop) -> None:
    seen = []

    class Looks(Record):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            seen.append(WHO.get())
            WHO.set("connection_made")

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            seen.append(WHO.get())

    WHO.set("maker")
    both = await connect(client=Looks)
    WHO.set("later")
    both.peer.transport.write(b"data")
    await both.client.received(4)
    assert seen == ["maker", "maker"]
    both.client.transport.pause_reading()
    both.client.transport.resume_reading()
    both.peer.transport.write(b"more")
    await both.client.received(8)
    assert seen == ["maker", "maker", "later"]
    await both.close()


async def test_paused_means_that_nothing_comes_and_nothing_is_lost(loop: Loop) -> None:
    both = await connect()
    transport = both.peer.transport
    assert transport.is_reading()
    transport.pause_reading()
    transport.pause_reading()
    assert not transport.is_reading()
    both.client.transport.write(b"data")
    await turns(10)
    assert not both.peer.data
    transport.resume_reading()
    transport.resume_reading()
    assert transport.is_reading()
    assert await both.peer.received(4) == b"data"
    transport.close()
    assert not transport.is_reading()
    transport.resume_reading()
    transport.pause_reading()
    await both.close()


async def test_the_end_of_stream_leaves_the_other_direction_open_if_the_protocol_says_so(loop: Loop) -> None:
    both = await connect(peer=lambda: Record(keep_open=True))
    both.client.transport.write_eof()
    await both.peer.eof
    both.peer.transport.write(b"after the end")
    assert await both.client.received(13) == b"after the end"
    both.peer.transport.close()
    assert await both.peer.lost is None
    assert await both.client.lost is None
    await both.close()


async def test_a_reset_is_the_reason_of_the_loss(loop: Loop) -> None:
    both = await connect()
    sock = both.client.transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    both.client.transport.abort()
    assert isinstance(await both.peer.lost, ConnectionResetError)
    assert both.peer.calls == ["connection_made", "connection_lost"]
    await both.close()


async def test_the_protocol_may_change_between_two_reads(loop: Loop) -> None:
    both = await connect()
    both.client.transport.write(b"one")
    await both.peer.received(3)
    second = Buffered()
    both.peer.transport.set_protocol(second)
    assert both.peer.transport.get_protocol() is second
    both.client.transport.write(b"two")
    while len(second.data) < 3:
        await turns(1)
    assert (bytes(both.peer.data), bytes(second.data)) == (b"one", b"two")
    both.peer.transport.set_protocol(both.peer)
    await both.close()


@pytest.mark.parametrize("size", [1, 32 * 1024, 100_000, 3_000_000])
async def test_every_byte_arrives_whatever_the_sizes(loop: Loop, size: int) -> None:
    both = await connect()
    message = pattern(size)
    for _ in range(3):
        both.client.transport.write(message)
    assert await both.peer.received(3 * size) == message * 3
    await both.close()


async def test_debug_mode_names_a_slow_protocol(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    both = await connect()
    loop.slow_callback_duration = 0
    with caplog.at_level(logging.WARNING, "asyncio"):
        both.client.transport.write(b"data")
        await both.peer.received(4)
        await turns(1)
    loop.slow_callback_duration = 10
    said = [record.getMessage() for record in caplog.records if "Transport" in record.getMessage()]
    assert bool(said) == loop.get_debug()
    assert all(text.startswith("Executing <") and " took 0.0" in text for text in said)
    await both.close()
