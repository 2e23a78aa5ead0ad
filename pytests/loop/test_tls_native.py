"""TLS connections: the same cases on the stdlib's loop and on ours. What holds for both is the contract."""

import asyncio
import gc
import os
import random
import shutil
import socket
import ssl
import subprocess
import threading
import warnings
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

erlang = pytest.importorskip("erlang")

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "stdlib": asyncio.SelectorEventLoop,
    "ours": erlang.new_event_loop,
}
HOST = "127.0.0.1"
LIMIT = 20.0

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine on one of the loops; errors that nobody handled fail the test."""

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        unhandled: list[dict[str, Any]] = []

        def handle(_: object, context: dict[str, Any]) -> None:
            # In debug mode servers tell of clients that went before the end of their handshake.
            if context["message"] != "Error on transport creation for incoming connection":
                unhandled.append(context)

        async def bounded() -> Any:
            asyncio.get_running_loop().set_exception_handler(handle)
            return await asyncio.wait_for(main, LIMIT)

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            result = runner.run(bounded())
        gc.collect()
        assert not unhandled
        return result

    return run


class Certificates:
    """A server's and a client's certificate, each its own authority."""

    def __init__(self, directory: Path) -> None:
        self.files: dict[str, tuple[Path, Path]] = {}
        for name in ("server", "client"):
            key, certificate = directory / f"{name}.key", directory / f"{name}.pem"
            command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
            command += ["-keyout", str(key), "-out", str(certificate), "-subj", f"/CN={name}"]
            command += ["-addext", f"subjectAltName=DNS:localhost,IP:{HOST}"]
            subprocess.run(command, check=True, capture_output=True)
            self.files[name] = (certificate, key)

    def server(self, **options: Any) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.files["server"])
        for name, value in options.items():
            setattr(context, name, value)
        return context

    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.files["server"][0])


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make certificates with")
    return Certificates(tmp_path_factory.mktemp("certificates"))


@asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None, **options: Any) -> AsyncIterator[int]:
    """A server of streams; gives its port."""
    server = await asyncio.start_server(handler, HOST, 0, ssl=context, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(server.wait_closed(), 5)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends back what it gets."""
    with suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(1 << 18):
            writer.write(data)
            await writer.drain()
    await closed(writer)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError, ssl.SSLError, TimeoutError):
        await writer.wait_closed()


@contextmanager
def peer(work: Callable[[socket.socket], None]) -> Iterator[int]:
    """A blocking peer on a thread, for what a loop would not do. Gives its port."""
    listener = socket.create_server((HOST, 0))
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(LIMIT)
                work(connection)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join(LIMIT)
        listener.close()
    assert not failures


class Recorder(asyncio.Protocol):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.data = bytearray()
        self.reason: BaseException | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.some: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.events.append("made")
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert type(data) is bytes
        if "data" not in self.events:
            self.events.append("data")
        self.data += data
        if not self.some.done():
            self.some.set_result(None)

    def eof_received(self) -> None:
        self.events.append("eof")

    def connection_lost(self, exc: BaseException | None) -> None:
        self.events.append("lost")
        self.reason = exc
        self.lost.set_result(None)


class Buffered(Recorder, asyncio.BufferedProtocol):
    """The same, with a buffer of its own that is smaller than a record."""

    room = bytearray(1000)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.room)

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self.room[:nbytes]))


def connect(
    factory: Callable[[], Any], port: int, context: ssl.SSLContext, **options: Any
) -> Coroutine[Any, Any, tuple[Any, Any]]:
    loop = asyncio.get_running_loop()
    return loop.create_connection(factory, HOST, port, ssl=context, server_hostname="localhost", **options)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_every_byte_comes_back_whatever_the_size(run: Any, certificates: Certificates, version: Any) -> None:
    async def main() -> None:
        context = certificates.server(minimum_version=version, maximum_version=version)
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


def test_a_transport_says_what_the_stdlibs_says(run: Any, certificates: Certificates) -> None:
    async def main() -> None:
        async with serving(echo, certificates.server()) as port:
            context = certificates.client()
            transport, protocol = await connect(Recorder, port, context)
            info = transport.get_extra_info
            assert asyncio.Transport in type(transport).__mro__
            assert info("sslcontext") is context
            assert info("ssl_object").version() in {"TLSv1.2", "TLSv1.3"}
            assert info("cipher") == info("ssl_object").cipher()
            assert info("compression") is None
            assert ("DNS", "localhost") in info("peercert")["subjectAltName"]
            assert info("peername")[0] == HOST
            assert info("socket").fileno() >= 0
            assert info("nonsense", 7) == 7
            assert transport.get_protocol() is protocol
            assert transport.can_write_eof() is False
            with pytest.raises(NotImplementedError):
                transport.write_eof()
            assert transport.is_reading()
            transport.pause_reading()
            transport.pause_reading()
            assert not transport.is_reading()
            transport.resume_reading()
            assert transport.get_write_buffer_limits() == (131072, 524288)
            transport.set_write_buffer_limits(high=100)
            assert transport.get_write_buffer_limits() == (25, 100)
            transport.set_write_buffer_limits(high=1.5, low=0.5)
            assert transport.get_write_buffer_limits() == (0.5, 1.5)
            with pytest.raises(ValueError, match="must be >= low"):
                transport.set_write_buffer_limits(high=1, low=2)
            assert transport.get_read_buffer_limits() == (65536, 262144)
            assert transport.get_write_buffer_size() == transport.get_read_buffer_size() == 0
            assert not transport.is_closing()
            transport.close()
            assert transport.is_closing()
            transport.write(b"dropped")
            transport.writelines([b"dropped"])
            await protocol.lost
            transport.write(b"dropped")
            assert info("ssl_object") is not None
            assert info("peername", 7) == 7
            transport.close()
            transport.close()
            transport.abort()
            assert protocol.events == ["made", "eof", "lost"]

    run(main())


# The stdlib leaves the socket to the collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_bad_arguments_are_refused(run: Any, certificates: Certificates) -> None:
    async def main() -> None:
        async with serving(echo, certificates.server()) as port:
            for name in ("ssl_handshake_timeout", "ssl_shutdown_timeout"):
                with pytest.raises(ValueError, match=f"{name} should be a positive number, got 0"):
                    await connect(Recorder, port, certificates.client(), **{name: 0})
            loop = asyncio.get_running_loop()
            transport, protocol = await loop.create_connection(Recorder, HOST, port)
            with pytest.raises(TypeError, match=r"instance of ssl\.SSLContext"):
                await loop.start_tls(transport, protocol, None)  # type: ignore[arg-type]
            transport.close()
            await protocol.lost

    run(main())


def test_alpn_and_client_certificates(run: Any, certificates: Certificates) -> None:
    seen: list[Any] = []

    async def look(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("peercert")["subject"])
        seen.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await closed(writer)

    async def main() -> None:
        server, client = certificates.server(verify_mode=ssl.CERT_REQUIRED), certificates.client()
        server.load_verify_locations(certificates.files["client"][0])
        server.set_alpn_protocols(["h2", "http/1.1"])
        client.load_cert_chain(*certificates.files["client"])
        client.set_alpn_protocols(["http/1.1"])
        async with serving(look, server) as port:
            transport, protocol = await connect(Recorder, port, client)
            assert transport.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
            await protocol.lost
        assert seen == [((("commonName", "client"),),), "http/1.1"]

    run(main())


def test_an_unknown_certificate_is_refused_with_the_reason(run: Any, certificates: Certificates) -> None:
    async def main() -> None:
        async with serving(echo, certificates.server()) as port:
            with pytest.raises(ssl.SSLCertVerificationError) as raised:
                await connect(Recorder, port, ssl.create_default_context())
            assert raised.value.verify_code == 18
            assert raised.value.reason == "CERTIFICATE_VERIFY_FAILED"
            assert raised.value.library == "SSL"

    run(main())


def test_a_handshake_that_does_not_come_ends_by_its_timeout(run: Any, certificates: Certificates) -> None:
    def silent(connection: socket.socket) -> None:
        while connection.recv(65536):
            pass

    async def main() -> None:
        with peer(silent) as port, pytest.raises(ConnectionAbortedError, match=r"taking longer than 0\.05 s"):
            await connect(Recorder, port, certificates.client(), ssl_handshake_timeout=0.05)

    run(main())


def test_a_peer_that_goes_in_the_middle_of_a_handshake(run: Any, certificates: Certificates) -> None:
    def leave(connection: socket.socket) -> None:
        connection.recv(100)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass

    async def main() -> None:
        with peer(leave) as port, pytest.raises(ConnectionResetError):
            await connect(Recorder, port, certificates.client())

    run(main())


def test_a_goodbye_that_is_not_answered_ends_by_its_timeout(run: Any, certificates: Certificates) -> None:
    context = certificates.server()

    def mute(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True, suppress_ragged_eofs=True) as tls:
            tls.sendall(b"hello")
            # Raw: the goodbye is read but not understood, and so not answered.
            with suppress(OSError), socket.socket(fileno=os.dup(tls.fileno())) as raw:
                raw.settimeout(LIMIT)
                while raw.recv(65536):
                    pass

    async def main() -> None:
        with peer(mute) as port:
            transport, protocol = await connect(
                Recorder, port, certificates.client(), ssl_shutdown_timeout=0.05
            )
            await protocol.some
            transport.close()
            await protocol.lost
        assert isinstance(protocol.reason, TimeoutError)
        assert str(protocol.reason) == "SSL shutdown timed out"
        assert protocol.events == ["made", "data", "lost"]

    run(main())


def test_close_ends_while_the_peer_keeps_sending(run: Any, certificates: Certificates) -> None:
    context = certificates.server()

    def flood(connection: socket.socket) -> None:
        with suppress(OSError), context.wrap_socket(connection, server_side=True) as tls:
            while True:
                tls.sendall(bytes(65536))

    async def main() -> None:
        with peer(flood) as port:
            transport, protocol = await connect(Recorder, port, certificates.client())
            await protocol.some
            transport.close()
            await protocol.lost
        assert protocol.events.count("lost") == 1

    run(main())


def test_a_peer_that_goes_without_a_goodbye_is_an_eof(run: Any, certificates: Certificates) -> None:
    context = certificates.server()

    def rude(connection: socket.socket) -> None:
        copy = connection.dup()
        tls = context.wrap_socket(connection, server_side=True)
        tls.sendall(b"hello")
        tls.recv(1)
        copy.shutdown(socket.SHUT_RDWR)
        copy.close()
        tls.close()

    async def main() -> None:
        with peer(rude) as port:
            transport, protocol = await connect(Recorder, port, certificates.client())
            await protocol.some
            transport.write(b"x")
            await protocol.lost
        assert protocol.events == ["made", "data", "eof", "lost"]
        assert protocol.reason is None
        assert bytes(protocol.data) == b"hello"

    run(main())


def test_nonsense_on_the_wire_ends_the_connection_once(run: Any, certificates: Certificates) -> None:
    context = certificates.server()

    def spoil(connection: socket.socket) -> None:
        copy = connection.dup()
        tls = context.wrap_socket(connection, server_side=True)
        tls.sendall(b"hello")
        tls.recv(1)
        copy.sendall(b"\x17\x03\x03\x00\x20" + bytes(32) + b"\x17\x03\x03\x00\x20" + bytes(32))
        with suppress(OSError):
            while copy.recv(65536):
                pass
        copy.close()
        tls.close()

    async def main() -> None:
        with peer(spoil) as port:
            transport, protocol = await connect(Recorder, port, certificates.client())
            await protocol.some
            transport.write(b"x")
            await protocol.lost
        assert protocol.events == ["made", "data", "lost"]
        assert isinstance(protocol.reason, ssl.SSLError)
        assert protocol.reason.reason in {"DECRYPTION_FAILED_OR_BAD_RECORD_MAC", "BAD_RECORD_TYPE"}

    run(main())


def test_start_tls_keeps_what_had_come_before(run: Any, certificates: Certificates) -> None:
    client = certificates.client()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        accepted: asyncio.Future[Any] = loop.create_future()

        class Waiting(Recorder):
            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                if not accepted.done():
                    transport.pause_reading()
                    accepted.set_result(self)

            def data_received(self, data: bytes) -> None:
                super().data_received(data)
                self.transport.write(data)

        server = await loop.create_server(Waiting, HOST, 0)
        address = server.sockets[0].getsockname()

        def visit() -> bytes:
            with (
                socket.create_connection(address, timeout=LIMIT) as plain,
                client.wrap_socket(plain, server_hostname="localhost") as tls,
            ):
                tls.sendall(b"early" * 1000)
                got = b""
                while len(got) < 5000:
                    got += tls.recv(5000)
                return got

        answer = loop.run_in_executor(None, visit)
        protocol = await accepted
        wire = protocol.transport
        # The client's hello lies in the socket before anybody has said TLS here.
        connection = socket.socket(fileno=os.dup(wire.get_extra_info("socket").fileno()))
        connection.setblocking(True)
        assert await loop.run_in_executor(None, lambda: connection.recv(1, socket.MSG_PEEK)) == b"\x16"
        connection.setblocking(False)
        connection.close()
        protocol.transport = await loop.start_tls(wire, protocol, certificates.server(), server_side=True)
        assert await answer == b"early" * 1000
        await protocol.lost
        assert protocol.events == ["made", "data", "eof", "lost"]
        server.close()

    run(main())


def test_tls_inside_tls(run: Any, certificates: Certificates) -> None:
    ended: list[asyncio.Event] = []

    async def upgrade(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"go")
        await writer.start_tls(certificates.server())
        await echo(reader, writer)
        ended[-1].set()

    async def main() -> None:
        ended.append(asyncio.Event())
        async with serving(upgrade, certificates.server()) as port:
            reader, writer = await asyncio.open_connection(
                HOST, port, ssl=certificates.client(), server_hostname="localhost"
            )
            assert await reader.readexactly(2) == b"go"
            await writer.start_tls(certificates.client(), server_hostname="localhost")
            sent = os.urandom(200_000)
            writer.write(sent)
            assert await reader.readexactly(len(sent)) == sent
            await closed(writer)
            await ended[-1].wait()

    if not hasattr(asyncio.StreamWriter, "start_tls"):
        pytest.skip("streams have no start_tls here")
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
    for name, factory in LOOPS.items():
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


def test_nothing_is_left_of_a_connection_without_the_collector(run: Any, certificates: Certificates) -> None:
    left: list[weakref.ref[Any]] = []

    async def visit(port: int, end: str) -> None:
        transport, protocol = await connect(Recorder, port, certificates.client())
        left.append(weakref.ref(transport))
        left.append(weakref.ref(transport._ssl_protocol))
        left.append(weakref.ref(protocol))
        left.append(weakref.ref(transport.get_extra_info("sslcontext")))
        transport.write(b"x")
        await protocol.some
        if end == "abort":
            transport.abort()
        else:
            transport.close()
        await protocol.lost
        del protocol.transport

    async def main() -> None:
        async with serving(echo, certificates.server()) as port:
            await visit(port, "close")
            await visit(port, "abort")
        for _ in range(3):
            await asyncio.sleep(0)

    gc.collect()
    gc.disable()
    try:
        run(main())
        assert [reference() for reference in left] == [None] * len(left)
    finally:
        gc.enable()


def test_a_transport_that_was_forgotten_is_named(certificates: Certificates) -> None:
    messages = {}
    for name, factory in LOOPS.items():

        async def main() -> None:
            async with serving(echo, certificates.server()) as port:
                transport, protocol = await connect(Recorder, port, certificates.client())
                del transport.get_protocol().transport
                wire = transport._ssl_protocol._transport
                # Cuts every way to the transport but that of its own protocol.
                wire.pause_reading()
                del protocol, transport
                wire._protocol = None
                wire.abort()
                del wire

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ResourceWarning)
            with asyncio.Runner(loop_factory=factory) as runner:
                with suppress(AttributeError):
                    runner.run(main())
                gc.collect()
        messages[name] = {str(w.message) for w in caught if "SSLProtocolTransport" in str(w.message)}
    assert messages["ours"] == messages["stdlib"]
