"""TLS connections as they end: goodbyes answered or not, nonsense on the wire, what is left of them. The
same on stdlib's loop and on ours.
"""

import asyncio
import gc
import os
import socket
import ssl
import warnings
import weakref
from contextlib import suppress
from typing import Any

from secure import BOTH, LIMIT, Recorder, connect, echo, peer, serving
from tls import Certificates


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
    for name, factory in BOTH.items():

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
