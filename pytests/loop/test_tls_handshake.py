"""TLS connections as they begin: what they know, refusals, handshakes that do not come, start_tls. The
same on stdlib's loop and on ours.
"""

import asyncio
import os
import socket
import ssl
from typing import Any

import pytest
from secure import HOST, LIMIT, Recorder, closed, connect, echo, peer, serving
from tls import Certificates


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
        seen.append(writer.get_extra_info("peercert")["subjectAltName"])
        seen.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await closed(writer)

    async def main() -> None:
        server, client = certificates.server(ask_client=True), certificates.client(certificate=True)
        server.set_alpn_protocols(["h2", "http/1.1"])
        client.set_alpn_protocols(["http/1.1"])
        async with serving(look, server) as port:
            transport, protocol = await connect(Recorder, port, client)
            assert transport.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
            await protocol.lost
        assert seen == [(("email", "client@localhost"),), "http/1.1"]

    run(main())


def test_an_unknown_certificate_is_refused_with_the_reason(run: Any, certificates: Certificates) -> None:
    async def main() -> None:
        async with serving(echo, certificates.server()) as port:
            with pytest.raises(ssl.SSLCertVerificationError) as raised:
                await connect(Recorder, port, ssl.create_default_context())
            assert raised.value.verify_code == 20
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


def test_start_tls_keeps_what_had_come_before(run: Any, certificates: Certificates) -> None:
    client = certificates.client()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        accepted: asyncio.Future[Any] = loop.create_future()
        arrived: asyncio.Future[None] = loop.create_future()

        class Waiting(Recorder):
            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                if not accepted.done():
                    transport.pause_reading()
                    accepted.set_result(self)

            def data_received(self, data: bytes) -> None:
                super().data_received(data)
                if len(self.data) == 5000:
                    arrived.set_result(None)

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
        secure = await loop.start_tls(wire, protocol, certificates.server(), server_side=True)
        # It may come with the end of the handshake, before anybody has the transport to answer on.
        await arrived
        assert secure is not None
        secure.write(bytes(protocol.data))
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
