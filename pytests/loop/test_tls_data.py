"""TLS connections at work: every byte, in order, whatever the sizes; flow control; exceptions of the
application. The same on stdlib's loop and on ours.
"""

import asyncio
import os
import random
import ssl
from contextlib import suppress
from typing import Any

import pytest
from peers import turns
from secure import BOTH, HOST, Buffered, Recorder, closed, connect, echo, serving
from tls import Certificates


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_every_byte_comes_back_whatever_the_size(run: Any, certificates: Certificates, version: Any) -> None:
    async def main() -> None:
        context = certificates.server(version=version)
        async with serving(echo, context) as port:
            reader, writer = await asyncio.open_connection(
                HOST, port, ssl=certificates.client(), server_hostname="localhost"
            )
            for size in (0, 1, 2, 1023, 16383, 16384, 16385, 100_000, 262_144, 1 << 20):
                sent = os.urandom(size)
                writer.write(sent)
                assert await reader.readexactly(size) == sent
            await closed(writer)

    run(main())


@pytest.mark.parametrize("factory", [Recorder, Buffered])
def test_what_was_sent_before_close_arrives(run: Any, certificates: Certificates, factory: Any) -> None:
    sent = os.urandom(1 << 20)

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for start in range(0, len(sent), 50_000):
            writer.write(sent[start : start + 50_000])
        await closed(writer)

    async def main() -> None:
        async with serving(send, certificates.server()) as port:
            _, protocol = await connect(factory, port, certificates.client())
            await protocol.lost
        assert bytes(protocol.data) == sent
        assert protocol.events == ["made", "data", "eof", "lost"]
        assert protocol.reason is None

    run(main())


def test_writes_of_every_kind_keep_their_order(run: Any, certificates: Certificates) -> None:
    pieces: list[Any] = [
        b"bytes",
        bytearray(b"bytearray"),
        memoryview(b"memoryview"),
        b"",
        os.urandom(40_000),
    ]

    async def main() -> None:
        async with serving(echo, certificates.server()) as port:
            transport, protocol = await connect(Recorder, port, certificates.client())
            for piece in pieces:
                transport.write(piece)
            transport.writelines(pieces)
            wanted = b"".join(pieces) * 2
            while len(protocol.data) < len(wanted):
                await asyncio.sleep(0)
            assert bytes(protocol.data) == wanted
            with pytest.raises(TypeError, match="data: expecting a bytes-like instance, got str"):
                transport.write("text")
            transport.close()
            await protocol.lost

    run(main())


def test_a_paused_reader_stops_the_peer(run: Any, certificates: Certificates) -> None:
    class Sender(Recorder):
        def __init__(self) -> None:
            super().__init__()
            self.sent = 0
            self.full: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def pause_writing(self) -> None:
            self.events.append("full")
            self.full.set_result(None)

        def resume_writing(self) -> None:
            self.events.append("resumed")
            self.transport.close()

        def data_received(self, data: bytes) -> None:
            while not self.full.done():
                self.transport.write(bytes(65536))
                self.sent += 65536

    async def main() -> None:
        loop = asyncio.get_running_loop()
        senders: list[Sender] = []

        def factory() -> Sender:
            senders.append(Sender())
            return senders[-1]

        server = await loop.create_server(factory, HOST, 0, ssl=certificates.server())
        transport, protocol = await connect(
            Recorder, server.sockets[0].getsockname()[1], certificates.client()
        )
        transport.pause_reading()
        transport.write(b"go")
        while not senders:
            await asyncio.sleep(0)
        (sender,) = senders
        await sender.full
        assert not protocol.data
        transport.resume_reading()
        await protocol.lost
        await sender.lost
        assert len(protocol.data) == sender.sent
        assert sender.events == ["made", "full", "resumed", "eof", "lost"]
        server.close()

    run(main())


@pytest.mark.parametrize("callback", ["data_received", "eof_received"])
def test_an_exception_of_the_application_ends_the_connection(
    callback: str, request: pytest.FixtureRequest, certificates: Certificates
) -> None:
    class Faulty(Recorder):
        def data_received(self, data: bytes) -> None:
            if callback == "data_received":
                self.transport.write(b"last words")
                raise ZeroDivisionError
            super().data_received(data)

        def eof_received(self) -> None:
            raise ZeroDivisionError

    heard = bytearray()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        if callback == "eof_received":
            writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            heard.extend(await reader.read(100))
        await closed(writer)

    async def main() -> list[dict[str, Any]]:
        contexts: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: contexts.append(context))
        async with serving(speak, certificates.server()) as port:
            _, protocol = await connect(Faulty, port, certificates.client())
            await protocol.lost
        assert protocol.events.count("lost") == 1
        assert isinstance(protocol.reason, ZeroDivisionError)
        # As of now: what the end of the loop does to the server's task is another story.
        return list(contexts)

    told = {}
    for name, factory in BOTH.items():
        heard.clear()
        with asyncio.Runner(loop_factory=factory) as runner:
            contexts = runner.run(main())
        told[name] = [(context["message"], type(context["exception"])) for context in contexts]
        if callback == "data_received":
            assert bytes(heard) == b"last words"
    assert told["ours"] == told["stdlib"]


def test_two_hundred_connections_with_random_ends(run: Any, certificates: Certificates) -> None:
    chance = random.Random(7)

    async def visit(port: int, context: ssl.SSLContext) -> None:
        reader, writer = await asyncio.open_connection(HOST, port, ssl=context, server_hostname="localhost")
        for _ in range(chance.randrange(4)):
            sent = chance.randbytes(chance.randrange(1, 60_000))
            writer.write(sent)
            assert await reader.readexactly(len(sent)) == sent
        end = chance.randrange(3)
        if end == 0:
            writer.transport.abort()
        elif end == 1:
            writer.write(bytes(50_000))
        await closed(writer)

    async def main() -> None:
        async with serving(echo, certificates.server(), backlog=256) as port:
            context = certificates.client()
            await asyncio.gather(*(visit(port, context) for _ in range(200)))

    run(main())


@pytest.mark.parametrize("size", [100_000, 300_000, 8 << 20])
def test_one_large_write_is_all_the_wire_s(run: Any, certificates: Certificates, size: int) -> None:
    """However much the transport below has then, nothing waits above it: who wrote is told at the next."""
    ended = asyncio.Event()

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await ended.wait()
        writer.transport.abort()

    async def main() -> None:
        async with serving(deaf, certificates.server()) as port:
            transport, protocol = await connect(Flow, port, certificates.client())
            await turns(5)
            transport.write(bytes(size))
            assert transport.get_write_buffer_size() == 0
            assert protocol.paused == 0
            for _ in range(100):
                transport.write(bytes(size))
            assert protocol.paused == 1
            assert transport.get_write_buffer_size() > 0
            ended.set()
            transport.abort()
            await protocol.lost

    run(main())


class Flow(Recorder):
    paused = 0

    def pause_writing(self) -> None:
        self.paused += 1
