"""TLS: certificates both ways, ALPN, timeouts, half-open peers, big transfers with every byte checked,
start_tls.
"""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import tls as tls_files
from peers import (
    LOCAL,
    Buffered,
    Errors,
    Loop,
    Record,
    connect,
    listener,
    pattern,
    raw_client,
    settled,
    turns,
)

Contexts = dict[str, ssl.SSLContext]


@pytest.fixture
def contexts(server_context: ssl.SSLContext, client_context: ssl.SSLContext) -> Contexts:
    return {"server_ssl": server_context, "client_ssl": client_context}


@pytest.mark.parametrize("size", [1, 16_384, 16_385, 5_000_000])
async def test_both_directions_at_once(loop: Loop, contexts: Contexts, size: int) -> None:
    both = await connect(**contexts)  # type: ignore[arg-type]
    there, back = pattern(size, 1), pattern(size, 99)
    both.client.transport.write(there)
    both.peer.transport.write(back)
    assert await both.peer.received(size) == there
    assert await both.client.received(size) == back
    await both.close()


async def test_over_a_unix_socket(loop: Loop, contexts: Contexts, tmp_path: Path) -> None:
    both = await connect(path=str(tmp_path / "s"), **contexts)  # type: ignore[arg-type]
    both.client.transport.write(pattern(100_000))
    assert await both.peer.received(100_000) == pattern(100_000)
    await both.close()


async def test_what_is_known_of_the_connection(loop: Loop, contexts: Contexts) -> None:
    contexts["server_ssl"].set_alpn_protocols(["h2", "http/1.1"])
    contexts["client_ssl"].set_alpn_protocols(["http/1.1"])
    both = await connect(**contexts)  # type: ignore[arg-type]
    for end in (both.client, both.peer):
        assert end.transport.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        assert end.transport.get_extra_info("cipher")[0]
        assert end.transport.get_extra_info("sslcontext") in contexts.values()
        assert isinstance(end.transport, asyncio.Transport)
    assert both.client.transport.get_extra_info("peercert")["subjectAltName"]
    assert both.peer.transport.get_extra_info("peername")[0] == LOCAL
    await both.close()


async def test_client_certificates(loop: Loop, certificates: tls_files.Certificates) -> None:
    both = await connect(
        server_ssl=certificates.server(ask_client=True), client_ssl=certificates.client(certificate=True)
    )
    assert both.peer.transport.get_extra_info("peercert")["issuer"]
    await both.close()


async def test_a_missing_client_certificate_is_refused(
    loop: Loop, certificates: tls_files.Certificates, errors: Errors
) -> None:
    context = certificates.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # where the refusal is part of the handshake
    server = await loop.create_server(Record, LOCAL, 0, ssl=certificates.server(ask_client=True))
    port = server.sockets[0].getsockname()[1]
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await loop.create_connection(Record, LOCAL, port, ssl=context, server_hostname="localhost")
    server.close()
    await turns(10)
    errors.take()


@pytest.mark.parametrize("wrong", ["name", "authority"])
async def test_an_untrusted_server_is_refused(
    loop: Loop, contexts: Contexts, tmp_path: Path, errors: Errors, wrong: str
) -> None:
    server = await loop.create_server(Record, LOCAL, 0, ssl=contexts["server_ssl"])
    port = server.sockets[0].getsockname()[1]
    context = contexts["client_ssl"] if wrong == "name" else tls_files.make(tmp_path).client()
    name = "elsewhere.invalid" if wrong == "name" else "localhost"
    with pytest.raises(ssl.SSLCertVerificationError):
        await loop.create_connection(Record, LOCAL, port, ssl=context, server_hostname=name)
    server.close()
    await turns(20)
    errors.take()


async def test_handshake_timeout_of_a_client(loop: Loop, client_context: ssl.SSLContext) -> None:
    silent = listener()
    with pytest.raises(ConnectionAbortedError):
        await loop.create_connection(
            Record,
            LOCAL,
            silent.getsockname()[1],
            ssl=client_context,
            server_hostname="localhost",
            ssl_handshake_timeout=0.05,
        )
    silent.close()


async def test_handshake_timeout_of_a_server(
    loop: Loop, server_context: ssl.SSLContext, errors: Errors
) -> None:
    """A client that says nothing is shut out; its protocol never hears of a connection."""
    server = await loop.create_server(Record, LOCAL, 0, ssl=server_context, ssl_handshake_timeout=0.05)
    client = socket.socket()
    client.setblocking(False)
    await loop.sock_connect(client, server.sockets[0].getsockname())
    assert await loop.sock_recv(client, 10) == b""
    client.close()
    server.close()
    await turns(5)
    errors.take()


async def served(loop: Loop, server_context: ssl.SSLContext, **options: Any) -> tuple[asyncio.Server, Any]:
    made = loop.create_future()

    def make() -> Record:
        protocol = Record()
        made.set_result(protocol)
        return protocol

    return await loop.create_server(make, LOCAL, 0, ssl=server_context, **options), made


async def test_shutdown_timeout(loop: Loop, contexts: Contexts) -> None:
    """A peer that never answers the close is waited for as long as was said, and no longer."""
    server, made = await served(loop, contexts["server_ssl"], ssl_shutdown_timeout=0.1)
    raw, *_ = await raw_client(loop, server.sockets[0].getsockname(), contexts["client_ssl"])
    protocol = await made
    await protocol.made
    protocol.transport.close()
    await protocol.lost
    raw.close()
    server.close()
    await server.wait_closed()


async def test_a_peer_that_goes_without_a_word(loop: Loop, contexts: Contexts, errors: Errors) -> None:
    server, made = await served(loop, contexts["server_ssl"])
    raw, tls, _, outgoing = await raw_client(loop, server.sockets[0].getsockname(), contexts["client_ssl"])
    protocol = await made
    await protocol.made
    tls.write(b"last words")
    await loop.sock_sendall(raw, outgoing.read())
    raw.close()
    await protocol.lost
    assert protocol.data == b"last words"
    server.close()
    await server.wait_closed()
    errors.take()


async def test_records_in_small_pieces(loop: Loop, contexts: Contexts) -> None:
    """A record may come byte by byte, and many may come at once."""
    server, made = await served(loop, contexts["server_ssl"])
    raw, tls, _, outgoing = await raw_client(loop, server.sockets[0].getsockname(), contexts["client_ssl"])
    protocol = await made
    tls.write(pattern(200))
    for byte in outgoing.read():
        await loop.sock_sendall(raw, bytes([byte]))
        await turns(1)
    for number in range(50):
        tls.write(b"%d" % number)
    await loop.sock_sendall(raw, outgoing.read())
    expected = pattern(200) + b"".join(b"%d" % number for number in range(50))
    assert await protocol.received(len(expected)) == expected
    protocol.transport.abort()
    await protocol.lost
    raw.close()
    server.close()
    await server.wait_closed()


async def test_buffered_protocol(loop: Loop, contexts: Contexts, column: str) -> None:
    class Viewed(Buffered):
        def get_buffer(self, sizehint: int) -> memoryview:  # type: ignore[override]
            return memoryview(super().get_buffer(sizehint))

    # stdlib reads the second part of a buffer into a slice of it, which of a bytearray is a copy: it loses
    # data.
    kind = Viewed if column == "stdlib" else Buffered
    both = await connect(lambda: kind(1000), **contexts)  # type: ignore[arg-type]
    message = pattern(300_000)
    both.peer.transport.write(message)
    both.peer.transport.close()
    await both.client.lost
    assert both.client.data == message
    await both.close()


async def test_pause_reading(loop: Loop, contexts: Contexts) -> None:
    both = await connect(**contexts)  # type: ignore[arg-type]
    both.client.transport.pause_reading()
    both.peer.transport.write(pattern(100_000))
    await turns(20)
    assert not both.client.data
    assert not both.client.transport.is_reading()
    both.client.transport.resume_reading()
    assert await both.client.received(100_000) == pattern(100_000)
    await both.close()


async def test_abort_is_at_once(loop: Loop, contexts: Contexts) -> None:
    both = await connect(**contexts)  # type: ignore[arg-type]
    both.client.transport.write(pattern(1_000_000))
    both.client.transport.abort()
    assert await both.client.lost is None
    await both.peer.lost
    await both.close()


async def test_start_tls_over_tls(loop: Loop, contexts: Contexts) -> None:
    """TLS in TLS, as through a proxy."""
    outer = await connect(**contexts)  # type: ignore[arg-type]
    inner, inner_peer = Record(), Record()
    up, down = await asyncio.gather(
        loop.start_tls(outer.client.transport, inner, contexts["client_ssl"], server_hostname="localhost"),
        loop.start_tls(outer.peer.transport, inner_peer, contexts["server_ssl"], server_side=True),
    )
    assert up and down
    up.write(pattern(100_000))
    assert await inner_peer.received(100_000) == pattern(100_000)
    down.write(pattern(50_000))
    assert await inner.received(50_000) == pattern(50_000)
    up.abort()
    down.abort()
    await inner.lost
    await inner_peer.lost
    outer.server.close()
    await turns(10)


async def test_a_cancelled_handshake_leaves_nothing(loop: Loop, client_context: ssl.SSLContext) -> None:
    silent = listener()
    port = silent.getsockname()[1]
    for steps in range(8):
        task = loop.create_task(
            loop.create_connection(Record, LOCAL, port, ssl=client_context, server_hostname="localhost")
        )
        await turns(steps)
        task.cancel()
        assert isinstance(await settled(task), asyncio.CancelledError)
        await turns(5)
    silent.close()
