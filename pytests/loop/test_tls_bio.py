"""What OpenSSL reads from and writes to: the bytes of the connection, whoever asks for them and for as long
as somebody has the SSL object; and memory BIOs where nothing else can be had. The same on stdlib's loop and
on ours.
"""

import asyncio
import gc
import os
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import erlang
import programs
import pytest
from peers import turns
from secure import BOTH, HOST, Recorder, connect, echo, peer, serving
from tls import Certificates

IN_THE_VM = "erlang._bridge" in sys.modules
HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
SIZES = (1, 16384, 16385, 100_000, 300_000)


def has_own_bio(transport: Any) -> bool | None:
    """Nothing on stdlib's loop."""
    answer: bool | None = getattr(transport._ssl_protocol, "_own_bio", None)
    return answer


async def talk(port: int, context: ssl.SSLContext) -> bool | None:
    """Every byte comes back; says what the connection was made with."""
    transport, protocol = await connect(Recorder, port, context)
    wanted = b""
    for size in SIZES:
        sent = os.urandom(size)
        wanted += sent
        transport.write(sent)
        while len(protocol.data) < len(wanted):
            await asyncio.sleep(0)
    assert bytes(protocol.data) == wanted
    own = has_own_bio(transport)
    transport.close()
    await protocol.lost
    assert protocol.reason is None
    return own


async def arrived(transport: Any, size: int) -> None:
    """So much has come and was not decrypted."""
    while transport.get_read_buffer_size() < size:
        await asyncio.sleep(0.001)


@pytest.mark.skipif(ssl.OPENSSL_VERSION_INFO < (3,), reason="memory BIOs, up to OpenSSL 1.1")
def test_memory_bios_are_not_used_where_openssl_can_be_reached(run: Any, certificates: Certificates) -> None:
    async def main() -> None:
        async with serving(echo, certificates.server()) as port:
            assert await talk(port, certificates.client()) is not False

    run(main())


@pytest.mark.skipif(IN_THE_VM, reason="starts a Python of its own")
def test_memory_bios_do_where_openssl_cannot_be_reached(certificates: Certificates) -> None:
    program = """if True:
        import _ssl, asyncio, sys
        del _ssl.__file__
        sys.path[:0] = sys.argv[1:3]
        import loops, test_tls_bio
        from pathlib import Path
        from tls import Certificates

        certificates = Certificates(*map(Path, sys.argv[3:]))

        async def main():
            async with test_tls_bio.serving(test_tls_bio.echo, certificates.server()) as port:
                return await test_tls_bio.talk(port, certificates.client())

        with asyncio.Runner(loop_factory=loops.factory("ours")) as runner:
            print("own:", runner.run(main()))
    """
    here = Path(__file__).parent
    files = (certificates.authority, certificates.server_pem, certificates.client_pem)
    done = programs.run(sys.executable, "-c", program, here, here.parent, *files)
    assert (done.stdout, done.stderr) == ("own: False\n", "")


class Twice(ssl.SSLContext):
    """Makes an SSL object in vain before the one that is wanted."""

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        self.spare = super().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), *args[2:], **kwargs)
        return super().wrap_bio(*args, **kwargs)


class Late(ssl.SSLContext):
    """Makes another SSL object, and lets go of it, after the one that is wanted."""

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        made = super().wrap_bio(*args, **kwargs)
        super().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), *args[2:], **kwargs)
        return made


class Earlier(ssl.SSLContext):
    """Gives out an SSL object that was made before, by somebody else."""

    def wrap_bio(self, incoming: Any, outgoing: Any, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        made: list[ssl.SSLObject] = []

        def make() -> None:
            made.append(super(Earlier, self).wrap_bio(incoming, outgoing, *args, **kwargs))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        # What was made on this thread is another one's.
        self.other = super().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), *args, **kwargs)
        return made[0]


class Object(ssl.SSLObject):
    """A class of the user's own."""


@pytest.mark.parametrize("kind", [Twice, Late, Earlier, Object])
def test_an_ssl_object_of_somebody_elses_making_keeps_its_bios(
    run: Any, certificates: Certificates, kind: Any
) -> None:
    if kind is Object:
        context = certificates.client()
        context.sslobject_class = Object
    else:
        context = kind(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(certificates.authority)

    async def main() -> None:
        async with serving(echo, certificates.server()) as port:
            assert await talk(port, context) is not True

    run(main())


def outcome(call: Any, *args: Any) -> Any:
    """What a call returns, or the class of what it raises."""
    try:
        return call(*args)
    except Exception as failure:
        return type(failure)


@pytest.mark.parametrize("end", ["close", "abort"])
def test_an_ssl_object_outlives_its_connection(certificates: Certificates, end: str) -> None:
    outcomes = {}
    for name, factory in BOTH.items():

        async def main() -> Any:
            async with serving(echo, certificates.server()) as port:
                transport, protocol = await connect(Recorder, port, certificates.client())
                transport.write(b"x")
                await protocol.some
                kept = transport.get_extra_info("ssl_object")
                getattr(transport, end)()
                await protocol.lost
                del protocol.transport
                return kept

        with asyncio.Runner(loop_factory=factory) as runner:
            kept = runner.run(main())
        gc.collect()
        outcomes[name] = [
            kept.version(),
            kept.pending(),
            outcome(kept.read, 10),
            outcome(kept.write, b"nobody gets this" * 5000),
            outcome(kept.read, 10),
            outcome(kept.unwrap),
            outcome(kept.unwrap),
        ]
        del kept
        gc.collect()
    assert outcomes["ours"] == outcomes["stdlib"]


def test_the_application_may_read_and_write_by_the_ssl_object(run: Any, certificates: Certificates) -> None:
    sent = os.urandom(150_000)

    async def main() -> None:
        async with serving(echo, certificates.server()) as port:
            transport, protocol = await connect(Recorder, port, certificates.client())
            transport.pause_reading()
            secure = transport.get_extra_info("ssl_object")
            transport.write(sent)
            got = b""
            while len(got) < 100_000:
                await arrived(transport, 17_000)
                # A thread of its own, which is not the one that fills it.
                got += await asyncio.to_thread(secure.read, 1000)
            # The rest is the transport's again; what was put in behind its back leaves with the next write.
            assert await asyncio.to_thread(secure.write, b"by hand, ") == 9
            transport.write(b"and not")
            transport.resume_reading()
            wanted = sent + b"by hand, and not"
            while len(got) + len(protocol.data) < len(wanted):
                await asyncio.sleep(0.001)
            assert got + bytes(protocol.data) == wanted
            transport.close()
            await protocol.lost

    run(main())


@pytest.mark.skipif(ssl.OPENSSL_VERSION_INFO < (3,), reason="memory BIOs, up to OpenSSL 1.1")
def test_data_passes_the_ssl_object_by_only_while_nobody_else_has_it(
    run: Any, certificates: Certificates
) -> None:
    async def main() -> None:
        async with serving(echo, certificates.server()) as port:
            transport, protocol = await connect(Recorder, port, certificates.client())
            wanted = b""

            async def exchange() -> None:
                nonlocal wanted
                for size in SIZES:
                    wanted += (sent := os.urandom(size))
                    transport.write(sent)
                while len(protocol.data) < len(wanted):
                    await asyncio.sleep(0)
                assert bytes(protocol.data) == wanted

            def is_direct() -> bool:
                return bool(getattr(transport._ssl_protocol, "_direct", False))

            possible = is_direct()
            assert possible == (HAS_GIL and isinstance(asyncio.get_running_loop(), erlang.ErlangEventLoop))
            await exchange()
            kept = transport.get_extra_info("ssl_object")
            assert not is_direct()
            await exchange()
            inner = kept._sslobj
            del kept
            assert not is_direct()
            await exchange()
            method = inner.read
            del inner
            assert not is_direct()
            await exchange()
            del method
            assert is_direct() == possible
            await exchange()
            transport.close()
            await protocol.lost

    run(main())


def test_who_listens_to_all_messages_may_fail(certificates: Certificates) -> None:
    async def main() -> Any:
        heard: list[str] = []
        enough = False

        def listen(connection: Any, direction: str, *_: Any) -> None:
            heard.append(direction)
            if enough and direction == "read":
                raise LookupError("heard enough")

        context = certificates.client()
        context._msg_callback = listen  # type: ignore[attr-defined]
        async with serving(echo, certificates.server()) as port:
            transport, protocol = await connect(Recorder, port, context)
            transport.write(b"first")
            await protocol.some
            enough = True
            transport.write(b"second")
            await asyncio.wait_for(protocol.lost, 20)
            del protocol.transport
        return protocol.events, bytes(protocol.data), type(protocol.reason), heard

    outcomes = {}
    for name, factory in BOTH.items():
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.get_loop().set_exception_handler(lambda *_: None)
            outcomes[name] = runner.run(main())
    assert outcomes["ours"] == outcomes["stdlib"]
    assert outcomes["ours"][1:3] == (b"first", LookupError)


class Server:
    """A blocking peer by hand, so that what is on the wire can be spoiled."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        self.connection = connection
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.secure = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        while True:
            try:
                self.secure.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.flush()
                self.incoming.write(connection.recv(65536))
        self.secure.write(b"hello")
        self.flush()

    def flush(self) -> None:
        self.connection.sendall(self.outgoing.read())

    def record(self, data: bytes) -> bytes:
        """What would go over the wire."""
        self.secure.write(data)
        return self.outgoing.read()


def spoiled(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def spoils_a_record(server: Server) -> None:
    server.connection.sendall(server.record(b"fine") + spoiled(server.record(b"not fine")))


def raises_an_alarm(server: Server) -> None:
    server.incoming.write(spoiled(server.connection.recv(65536)))
    with suppress(ssl.SSLError):
        server.secure.read()
    server.flush()


def says_goodbye(server: Server) -> None:
    with suppress(ssl.SSLWantReadError):
        server.secure.unwrap()
    server.flush()


def says_something_else(server: Server) -> None:
    server.connection.sendall(server.record(b"fine") + b"HTTP/1.1 400 Bad Request")


@pytest.mark.parametrize("act", [spoils_a_record, raises_an_alarm, says_goodbye, says_something_else])
def test_what_goes_wrong_is_told_as_by_the_stdlib(
    certificates: Certificates, act: Callable[[Server], None]
) -> None:
    context = certificates.server()

    def work(connection: socket.socket) -> None:
        act(Server(connection, context))
        with suppress(OSError):
            while connection.recv(65536):
                pass

    async def main(port: int) -> Any:
        transport, protocol = await connect(Recorder, port, certificates.client())
        await protocol.some
        transport.write(b"x")
        await protocol.lost
        del protocol.transport
        return protocol.events, bytes(protocol.data), type(protocol.reason), str(protocol.reason)

    outcomes = {}
    for name, factory in BOTH.items():
        with peer(work) as port, asyncio.Runner(loop_factory=factory) as runner:
            outcomes[name] = runner.run(main(port))
    assert outcomes["ours"] == outcomes["stdlib"]


def test_what_comes_in_pieces_while_nobody_reads_is_kept_in_order(
    run: Any, certificates: Certificates
) -> None:
    async def main() -> None:
        async with serving(echo, certificates.server()) as port:
            transport, protocol = await connect(Recorder, port, certificates.client())
            wanted = b""
            for turn in range(40):
                transport.pause_reading()
                for size in (1, 700, 20_000):
                    wanted += (piece := os.urandom(size))
                    transport.write(piece)
                await arrived(transport, 1 + turn * 300)
                transport.resume_reading()
                while len(protocol.data) < len(wanted) - 10_000:
                    await asyncio.sleep(0)
            while len(protocol.data) < len(wanted):
                await asyncio.sleep(0)
            assert bytes(protocol.data) == wanted
            assert transport.get_read_buffer_size() == 0
            transport.close()
            await protocol.lost

    run(main())


def test_a_transport_below_with_a_write_of_its_own_is_asked_by_that(
    run: Any, certificates: Certificates
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving(echo, certificates.server()) as port:
            wire, protocol = await loop.create_connection(Recorder, HOST, port)
            written: list[bytes] = []
            plain = wire.write

            def write(data: bytes) -> None:
                assert isinstance(data, bytes)
                written.append(data)
                plain(data)

            wire.write = write  # type: ignore[method-assign, assignment]
            secure = await loop.start_tls(wire, protocol, certificates.client(), server_hostname="localhost")
            assert secure is not None
            before = len(written)
            secure.write(b"x" * 1000)
            assert [len(data) > 1000 for data in written[before:]] == [True]
            await protocol.some
            secure.close()
            await protocol.lost

    run(main())


@pytest.mark.parametrize("alone", [True, False])
def test_the_peer_can_begin_with_a_large_write_if_the_turn_has_nothing_else(
    run: Any, certificates: Certificates, alone: bool
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving(echo, certificates.server()) as port:
            wire, protocol = await loop.create_connection(Recorder, HOST, port)
            secure = await loop.start_tls(wire, protocol, certificates.client(), server_hostname="localhost")
            assert secure is not None
            written: list[int] = []
            plain = wire.write

            def write(data: bytes) -> None:
                written.append(len(data) // 1000)
                plain(data)

            wire.write = write  # type: ignore[method-assign, assignment]
            sent = os.urandom(200 * 1024)
            # After that nothing else is on its way.
            secure.write(b"first")
            while len(protocol.data) < 5:
                await asyncio.sleep(0)
            await turns(3)
            written.clear()
            if alone:
                secure.write(sent)
            else:
                loop.call_soon(secure.write, sent)
                loop.call_soon(int)
            while len(protocol.data) < 5 + len(sent):
                await asyncio.sleep(0)
            assert bytes(protocol.data) == b"first" + sent
            if isinstance(loop, erlang.ErlangEventLoop):
                assert written == ([49, 49, 49, 57] if alone else [205])
            secure.close()
            await protocol.lost

    run(main())


class Below(asyncio.Transport):
    """A transport of others, which passes on what it is given and has something to say in between."""

    _start_tls_compatible = True

    def __init__(self, wire: asyncio.Transport) -> None:
        super().__init__()
        self.wire = wire
        self.between: list[Callable[[], None]] = []
        self.written: list[int] = []

    def write(self, data: Any) -> None:
        self.wire.write(data)
        self.written.append(len(data) // 1000)
        if self.between:
            self.between.pop()()

    def __getattribute__(self, name: str) -> Any:
        own = ("wire", "between", "written", "write", "_start_tls_compatible", "__class__")
        return object.__getattribute__(self, name) if name in own else getattr(self.wire, name)


def test_a_transport_of_others_that_writes_meanwhile_does_not_come_in_between(
    run: Any, certificates: Certificates
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving(echo, certificates.server()) as port:
            wire, protocol = await loop.create_connection(Recorder, HOST, port)
            below = Below(wire)
            secure = await loop.start_tls(below, protocol, certificates.client(), server_hostname="localhost")
            assert secure is not None
            sent = os.urandom(200 * 1024)
            # After that nothing else is on its way.
            secure.write(b"first")
            while len(protocol.data) < 5:
                await asyncio.sleep(0)
            await turns(3)
            below.between.append(lambda: secure.write(b"last"))
            below.written.clear()
            secure.write(sent)
            while len(protocol.data) < len(sent) + 9:
                await asyncio.sleep(0)
            assert bytes(protocol.data) == b"first" + sent + b"last"
            assert below.written == [205, 0]
            secure.close()
            await protocol.lost

    run(main())


def test_the_size_of_what_waits_is_known_to_the_byte(run: Any, certificates: Certificates) -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await ended.wait()
            writer.transport.abort()

        # TLS 1.2 with AES-GCM: 29 bytes more per record.
        context = certificates.server(version=ssl.TLSVersion.TLSv1_2)
        context.set_ciphers("ECDHE+AESGCM")
        async with serving(deaf, context) as port:
            transport, protocol = await connect(Recorder, port, certificates.client())
            # Until the transport below has enough: what is encrypted from then on waits here.
            while (first := transport.get_write_buffer_size()) == 0:
                transport.write(bytes(16384))
            assert first == 16384 + 29
            transport.write(bytes(16384 * 3))
            assert transport.get_write_buffer_size() == 4 * (16384 + 29)
            ended.set()
            transport.abort()
            await protocol.lost

    run(main())
