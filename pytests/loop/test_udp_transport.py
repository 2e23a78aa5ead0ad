"""Datagram transports themselves: what they are and say, addresses in every form, bursts, queues, ends."""

import asyncio
import contextlib
import contextvars
import gc
import socket
import sys
import tempfile
import weakref
from asyncio import trsock
from pathlib import Path
from typing import Any

import pytest
from peers import LOCAL, Errors, Loop, turns
from test_rows_f import above_1024
from test_udp import Datagrams, close, endpoint

HEADER = 8 if sys.version_info >= (3, 13) else 0


def plain(family: int = socket.AF_INET, address: Any = (LOCAL, 0)) -> socket.socket:
    """A datagram socket that the loop does not know."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    if address:
        sock.bind(address)
    sock.settimeout(10)
    return sock


async def stuck(loop: Loop, path: str, factory: Any = Datagrams, **options: Any) -> tuple[Any, Any, Any]:
    """A Unix endpoint whose peer reads nothing and has no room left: whatever is sent waits."""
    reader = plain(socket.AF_UNIX, path)
    transport, protocol = await loop.create_datagram_endpoint(factory, family=socket.AF_UNIX, **options)
    sender: Any = transport
    while not sender.get_write_buffer_size():
        sender.sendto(b"fill", None if options else path)
    return sender, protocol, reader


def drain(reader: socket.socket) -> list[bytes]:
    reader.setblocking(False)
    found = []
    while True:
        try:
            found.append(reader.recv(100_000))
        except BlockingIOError:
            return found


def forget(kept: list[Any]) -> None:
    kept.clear()
    gc.collect()


async def test_what_it_is(loop: Loop, column: str) -> None:
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    transport: Any = one[0]
    assert isinstance(transport, asyncio.BaseTransport)
    if column == "ours" or sys.version_info >= (3, 12):
        assert isinstance(transport, asyncio.DatagramTransport)
    sock = transport.get_extra_info("socket")
    assert type(sock) is trsock.TransportSocket and sock.type == socket.SOCK_DGRAM
    assert transport.get_extra_info("sockname") == sock.getsockname()
    assert transport.get_extra_info("peername") is None
    assert transport.get_extra_info("nothing", 7) == 7
    assert transport.get_protocol() is one[1]
    assert transport.get_write_buffer_limits() == (16_384, 65_536)
    transport.set_write_buffer_limits(high=400)
    assert transport.get_write_buffer_limits() == (100, 400)
    assert transport.get_write_buffer_size() == 0
    assert not transport.is_closing()
    text = repr(transport)
    assert f"fd={sock.fileno()} read=polling write=<idle, bufsize=0>" in text
    transport.close()
    assert " closing " in repr(transport) and transport.is_closing()
    await one[1].lost
    assert " closed " in repr(transport)


def test_left_open_it_says_so(loop: Loop) -> None:
    transport, protocol = loop.run_until_complete(endpoint(loop, local_addr=(LOCAL, 0)))
    loop.run_until_complete(turns(2))
    loop.close()
    del protocol
    kept = [transport]
    del transport
    with pytest.warns(ResourceWarning, match=r"unclosed transport <\S*DatagramTransport fd=\d+") as caught:
        forget(kept)
    caught.clear()  # each refers to what it warns of


async def test_a_closed_one_is_let_go(loop: Loop) -> None:
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    gone = weakref.ref(one[0]), weakref.ref(one[1])
    await close(one)
    del one
    await turns(2)
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


async def test_senders_have_the_names_that_sockets_give_them(loop: Loop, tmp_path: Path) -> None:
    named = str(tmp_path / "named ü")
    abstract = b"\0" + Path(tempfile.mktemp()).name.encode()
    long = str(tmp_path / "x")
    long += "x" * (107 - len(long.encode()))
    kinds: list[tuple[int, Any, Any]] = [
        (socket.AF_INET, (LOCAL, 0), (LOCAL, 0)),
        (socket.AF_INET, ("127.10.200.3", 0), (LOCAL, 0)),
        (socket.AF_INET6, ("::1", 0), ("::1", 0)),
        (socket.AF_UNIX, named, str(tmp_path / "a")),
        (socket.AF_UNIX, abstract, str(tmp_path / "b")),
        (socket.AF_UNIX, None, str(tmp_path / "c")),
        (socket.AF_UNIX, long, str(tmp_path / "d")),
    ]
    for family, its, ours in kinds:
        sender, judge = plain(family, its), plain(family, ours + "j" if family == socket.AF_UNIX else ours)
        one = await endpoint(loop, family=family, local_addr=ours)
        sender.sendto(b"x", judge.getsockname())
        expected = judge.recvfrom(10)
        for _ in range(2):  # found out, then remembered
            sender.sendto(b"x", one[0].get_extra_info("sockname"))
            received = await one[1].received.get()
            assert received == expected
            assert type(received[1]) is type(expected[1])
        if expected[1] is not None:
            one[0].sendto(b"back", received[1])
            assert sender.recv(10) == b"back"
        sender.close()
        judge.close()
        await close(one)


async def test_ipv4_on_an_ipv6_socket(loop: Loop) -> None:
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.bind(("::", 0))
    one = await endpoint(loop, sock=sock)
    with plain() as sender:
        sender.sendto(b"x", (LOCAL, sock.getsockname()[1]))
        data, address = await one[1].received.get()
        assert (data, address[0]) == (b"x", f"::ffff:{LOCAL}")
        one[0].sendto(b"y", address)
        assert sender.recv(10) == b"y"
        one[0].sendto(b"z", (f"::ffff:{LOCAL}", sender.getsockname()[1]))
        assert sender.recv(10) == b"z"
    await close(one)


@pytest.mark.parametrize("host", [LOCAL, "localhost", "127.1", ""])
async def test_addresses_to_send_to(loop: Loop, host: str) -> None:
    """Literals, names, and what only a socket understands."""
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    with plain(address=("0.0.0.0", 0)) as reader:
        port = reader.getsockname()[1]
        for number in range(3):  # a tuple of its own each time
            one[0].sendto(b"%d" % number, (host, port))
            assert reader.recv(10) == b"%d" % number
    await close(one)


async def test_addresses_of_ipv6_in_every_length(loop: Loop) -> None:
    one = await endpoint(loop, local_addr=("::1", 0))
    with plain(socket.AF_INET6, ("::1", 0)) as reader:
        port = reader.getsockname()[1]
        for address in [("::1", port), ("::1", port, 0), ("::1", port, 0, 0), ("0:0::1", port)]:
            one[0].sendto(b"x", address)
            assert reader.recv(10) == b"x"
    await close(one)


async def test_an_address_of_another_family_is_told(loop: Loop) -> None:
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    one[0].sendto(b"x", ("::1", 9))
    assert isinstance(await one[1].errors.get(), OSError)
    one[0].sendto(b"x", ("no.such.host.invalid", 9))
    assert isinstance(await one[1].errors.get(), socket.gaierror)
    await close(one)


@pytest.mark.parametrize("address", [(LOCAL, "9"), (LOCAL, 70_000), (LOCAL,), [LOCAL, 9], (5, 9), 5, "text"])
async def test_what_is_no_address_ends_it(loop: Loop, errors: Errors, address: Any) -> None:
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    one[0].sendto(b"x", address)
    assert one[0].is_closing()
    reason = await one[1].lost
    assert isinstance(reason, (TypeError, OverflowError))
    (context,) = errors.take()
    assert context["message"] == "Fatal write error on datagram transport"
    assert context["exception"] is reason and context["transport"] is one[0]


async def test_an_address_of_the_internet_is_none_of_a_unix_socket(
    loop: Loop, errors: Errors, tmp_path: Path
) -> None:
    one = await endpoint(loop, family=socket.AF_UNIX, local_addr=str(tmp_path / "here"))
    one[0].sendto(b"x", (LOCAL, 9))
    reason = await one[1].lost
    assert isinstance(reason, TypeError)
    assert [context["exception"] for context in errors.take()] == [reason]


async def test_answers_find_their_peers(loop: Loop) -> None:
    class Echo(Datagrams):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, addr: Any) -> None:
            self.transport.sendto(data, addr)

    transport, protocol = await loop.create_datagram_endpoint(Echo, local_addr=(LOCAL, 0))
    address = transport.get_extra_info("sockname")
    peers = [plain() for _ in range(40)]
    for _ in range(3):
        for number, peer in enumerate(peers):
            peer.sendto(b"%d" % number, address)
        for number, peer in enumerate(peers):
            peer.setblocking(False)
            assert await loop.sock_recv(peer, 10) == b"%d" % number
    for peer in peers:
        peer.close()
    transport.close()
    await protocol.lost


async def test_senders_by_the_hundred_keep_their_names(loop: Loop, column: str) -> None:
    """More than are remembered, the first of them twice."""
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    there = one[0].get_extra_info("sockname")
    named: dict[bytes, Any] = {}
    again = 0
    with contextlib.ExitStack() as open_ones:
        peers = [open_ones.enter_context(plain()) for _ in range(400)]
        for peer in [*peers, *reversed(peers), *peers[:20], *peers[:20]]:
            name = peer.getsockname()
            peer.sendto(b"%d" % name[1], there)
            data, address = await one[1].received.get()
            assert (data, address) == (b"%d" % name[1], name)
            again += named.get(data) is address
            named[data] = address
    if column == "ours":
        assert again > 30, "names are made anew"
    await close(one)


async def test_the_other_end_of_a_pair_is_sent_to_without_a_name(
    loop: Loop, column: str, errors: Errors
) -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with far:
        far.setblocking(False)
        one = await endpoint(loop, sock=near)
        transport: Any = one[0]
        far.send(b"ask")
        assert await one[1].received.get() == (b"ask", None)
        if column == "ours":
            transport.sendto(b"answer")
            transport.sendto(b"once more", None)
            assert [far.recv(100), far.recv(100)] == [b"answer", b"once more"]
            while not transport.get_write_buffer_size():
                transport.sendto(b"fill")
            sent = len(drain(far))
            while transport.get_write_buffer_size():
                await asyncio.sleep(0)
            assert sent > 0 and drain(far) == [b"fill"]
            far.close()
            transport.sendto(b"nobody")
            assert isinstance(await one[1].errors.get(), ConnectionError)
            await close(one)
        else:  # stdlib's takes the other end for no peer, as it has no name
            transport.sendto(b"answer")
            assert isinstance(errors.pop()["exception"], TypeError)
            assert isinstance(await one[1].lost, TypeError)


async def test_others_than_the_last_are_sent_to_as_well(loop: Loop) -> None:
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    with plain() as asking, plain() as other, plain() as third:
        asking.sendto(b"question", one[0].get_extra_info("sockname"))
        _, address = await one[1].received.get()
        targets = [(peer, peer.getsockname()) for peer in (other, third)]
        for _ in range(2):
            for peer, name in [*targets, (asking, address), *targets]:
                one[0].sendto(b"for %d" % name[1], name)
                assert peer.recv(100) == b"for %d" % name[1]
    await close(one)


async def test_a_burst_leaves_others_their_turn(loop: Loop) -> None:
    turn = 0
    seen: list[int] = []

    def count() -> None:
        nonlocal turn
        turn += 1
        if len(seen) < 200:
            loop.call_soon(count)

    class Counting(Datagrams):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            seen.append(turn)
            super().datagram_received(data, addr)

    transport, protocol = await loop.create_datagram_endpoint(Counting, local_addr=(LOCAL, 0))
    with plain() as sender:
        for number in range(200):
            sender.sendto(b"%d" % number, transport.get_extra_info("sockname"))
    loop.call_soon(count)
    assert [(await protocol.received.get())[0] for _ in range(200)] == [
        b"%d" % number for number in range(200)
    ]
    assert max(seen.count(turn) for turn in seen) <= 16
    transport.close()
    await protocol.lost


@pytest.mark.parametrize("how", ["close", "abort", "pause_reading"])
async def test_nothing_comes_after_a_stop_in_the_middle_of_a_burst(loop: Loop, how: str) -> None:
    class Stopping(Datagrams):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.transport = transport

        def datagram_received(self, data: bytes, addr: Any) -> None:
            super().datagram_received(data, addr)
            if data == b"3":
                try:
                    getattr(self.transport, how)()
                except NotImplementedError:  # before 3.11.4 the stdlib's cannot pause
                    self.transport.close()

    transport: Any
    transport, protocol = await loop.create_datagram_endpoint(Stopping, local_addr=(LOCAL, 0))
    with plain() as sender:
        for number in range(10):
            sender.sendto(b"%d" % number, transport.get_extra_info("sockname"))
    got = [(await protocol.received.get())[0] for _ in range(4)]
    await turns(5)
    assert got == [b"0", b"1", b"2", b"3"] and protocol.received.empty()
    if how == "pause_reading" and not transport.is_closing():
        assert not transport.is_reading()
        transport.resume_reading()
        assert [(await protocol.received.get())[0] for _ in range(6)] == [b"4", b"5", b"6", b"7", b"8", b"9"]
    transport.close()
    assert await protocol.lost is None


async def test_pausing_twice_is_pausing_once(loop: Loop, column: str) -> None:
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    transport: Any = one[0]
    if column == "ours" or hasattr(transport, "_paused"):  # before 3.11.4 stdlib's cannot pause
        transport.pause_reading()
        transport.pause_reading()
        with plain() as sender:
            sender.sendto(b"x", transport.get_extra_info("sockname"))
        await turns(3)
        assert one[1].received.empty()
        transport.resume_reading()
        transport.resume_reading()
        assert (await one[1].received.get())[0] == b"x"
    await close(one)


async def test_an_exception_in_a_burst_loses_nothing(loop: Loop, errors: Errors) -> None:
    class Picky(Datagrams):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            super().datagram_received(data, addr)
            if data in {b"1", b"2"}:
                raise ValueError(data)

    transport, protocol = await loop.create_datagram_endpoint(Picky, local_addr=(LOCAL, 0))
    with plain() as sender:
        for number in range(6):
            sender.sendto(b"%d" % number, transport.get_extra_info("sockname"))
    assert [(await protocol.received.get())[0] for _ in range(6)] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert [context["exception"].args for context in errors.take()] == [(b"1",), (b"2",)]
    assert not transport.is_closing()
    transport.close()
    await protocol.lost


async def test_another_protocol_gets_what_comes_next(loop: Loop) -> None:
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    transport: Any = one[0]
    other = Datagrams()
    transport.set_protocol(other)
    assert transport.get_protocol() is other
    with plain() as sender:
        sender.sendto(b"x", transport.get_extra_info("sockname"))
    assert (await other.received.get())[0] == b"x"
    transport.close()
    assert await other.lost is None
    assert not one[1].lost.done()


async def test_the_context_is_that_of_the_maker(loop: Loop) -> None:
    where = contextvars.ContextVar("where", default="nowhere")
    seen = loop.create_future()

    class Looking(Datagrams):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            seen.set_result(where.get())

    async def make() -> Any:
        where.set("inside")
        return await loop.create_datagram_endpoint(Looking, local_addr=(LOCAL, 0))

    transport, protocol = await loop.create_task(make())
    with plain() as sender:
        sender.sendto(b"x", transport.get_extra_info("sockname"))
    assert await seen == "inside"
    transport.close()
    await protocol.lost


async def test_an_empty_datagram(loop: Loop) -> None:
    """Sent like any other since 3.13, dropped before."""
    one = await endpoint(loop, local_addr=(LOCAL, 0))
    with plain() as reader:
        one[0].sendto(b"", reader.getsockname())
        one[0].sendto(b"x", reader.getsockname())
        assert reader.recv(10) == (b"" if HEADER else b"x")
    await close(one)


async def test_what_waits_is_counted_with_its_header(loop: Loop, tmp_path: Path) -> None:
    path = str(tmp_path / "slow")
    transport, protocol, reader = await stuck(loop, path, remote_addr=path)
    assert transport.get_write_buffer_size() == 4 + HEADER
    transport.sendto(b"four")
    transport.sendto(b"12345")
    assert transport.get_write_buffer_size() == 13 + 3 * HEADER
    assert f"write=<polling, bufsize={13 + 3 * HEADER}>" in repr(transport)
    transport.abort()
    assert transport.get_write_buffer_size() == 0 or transport.is_closing()
    assert await protocol.lost is None
    reader.close()


async def test_a_datagram_that_waits_is_a_copy(loop: Loop, tmp_path: Path) -> None:
    path = str(tmp_path / "slow")
    transport, protocol, reader = await stuck(loop, path, remote_addr=path)
    data = bytearray(b"before")
    transport.sendto(data)
    data[:] = b"after!"
    transport.close()
    got = drain(reader)
    while not protocol.lost.done():
        await turns(1)
        got += drain(reader)
    got += drain(reader)
    assert got[-1] == b"before" and set(got[:-1]) == {b"fill"}
    assert await protocol.lost is None
    reader.close()


async def test_datagrams_to_several_wait_in_line_and_find_their_ways(loop: Loop, tmp_path: Path) -> None:
    path = str(tmp_path / "slow")
    with plain(socket.AF_UNIX, str(tmp_path / "other")) as other:
        transport, protocol, reader = await stuck(loop, path)
        transport.sendto(b"to the other", other.getsockname())
        transport.sendto(b"to the slow", path)
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.recv(100)
        got = drain(reader)
        assert await loop.sock_recv(other, 100) == b"to the other"
        transport.close()
        await protocol.lost
        assert (got + drain(reader))[-1] == b"to the slow"
        reader.close()


async def test_a_long_queue_keeps_its_order(loop: Loop, tmp_path: Path) -> None:
    """So long that it goes out in several parts."""
    path = str(tmp_path / "slow")
    transport, protocol, reader = await stuck(loop, path, remote_addr=path)
    for number in range(2000):
        transport.sendto(b"%05d" % number + b"x" * 1000)
    transport.close()
    got = drain(reader)
    while not protocol.lost.done():
        await turns(1)
        got += drain(reader)
    got += drain(reader)
    assert [data[:5] for data in got if data != b"fill"] == [b"%05d" % number for number in range(2000)]
    assert await protocol.lost is None
    reader.close()


async def test_a_peer_that_left_is_told_for_each_that_waited(loop: Loop, tmp_path: Path) -> None:
    path = str(tmp_path / "slow")
    transport, protocol, reader = await stuck(loop, path, remote_addr=path)
    transport.sendto(b"one")
    transport.sendto(b"two")
    reader.close()
    told = [await protocol.errors.get() for _ in range(3)]
    assert all(isinstance(error, OSError) for error in told)
    assert isinstance(told[0], ConnectionError)
    assert not transport.is_closing()
    transport.close()
    assert await protocol.lost is None


async def test_close_sends_what_waits_and_abort_does_not(loop: Loop, tmp_path: Path) -> None:
    for how in ("close", "abort"):
        path = str(tmp_path / how)
        transport, protocol, reader = await stuck(loop, path, remote_addr=path)
        transport.sendto(b"last")
        getattr(transport, how)()
        assert transport.is_closing() and not protocol.lost.done()
        got = drain(reader)
        assert await protocol.lost is None
        got += drain(reader)
        assert (b"last" in got) == (how == "close")
        reader.close()


async def test_sending_on_a_closed_transport_is_nothing(loop: Loop, column: str, caplog: Any) -> None:
    with plain() as reader:
        for options in ({"remote_addr": reader.getsockname()}, {"local_addr": (LOCAL, 0)}):
            if column == "stdlib" and "local_addr" in options:
                continue  # its socket is None by then, and that is what it trips over
            one = await endpoint(loop, **options)
            await close(one)
            for _ in range(7):
                one[0].sendto(b"x", None if "remote_addr" in options else reader.getsockname())
            assert caplog.text.count("socket.send() raised exception.") == 3
            caplog.clear()
            one[0].close()
            one[0].abort()
        reader.setblocking(False)
        with pytest.raises(BlockingIOError):
            reader.recv(10)


async def test_f1_a_socket_closed_by_another_stays_open_for_its_transport(loop: Loop, column: str) -> None:
    """Two owners: the number is nobody else's before the transport is done with it."""
    if column == "stdlib":
        return  # there the number is free at once, and the transport goes on using it
    sock = plain()
    one = await endpoint(loop, sock=sock)
    address = sock.getsockname()
    number = sock.fileno()
    sock.close()
    with plain() as sender:
        assert sender.fileno() != number
        sender.sendto(b"x", address)
        assert (await one[1].received.get())[0] == b"x"
    await close(one)


async def test_f1_a_second_transport_for_an_fd_is_refused(loop: Loop) -> None:
    sock = plain()
    one = await endpoint(loop, sock=sock)
    if sys.version_info >= (3, 12):
        with pytest.raises(RuntimeError, match="is used by transport"):
            await endpoint(loop, sock=sock)
    with pytest.raises(RuntimeError, match="is used by transport"):
        loop.add_reader(sock, print)
    await close(one)


async def test_f9_numbers_above_1024(loop: Loop) -> None:
    sock = above_1024(plain())
    sock.setblocking(False)
    one = await endpoint(loop, sock=sock)
    assert sock.fileno() > 1024
    with plain() as sender:
        sender.sendto(b"x", sock.getsockname())
        data, address = await one[1].received.get()
        one[0].sendto(data, address)
        assert sender.recv(10) == b"x"
    await close(one)


async def test_t9_broadcast_by_its_name(loop: Loop) -> None:
    """Whether there is a network to broadcast to is not ours to say; that it is an address is."""
    one = await endpoint(loop, local_addr=("0.0.0.0", 0), allow_broadcast=True)
    one[0].sendto(b"x", ("<broadcast>", 9))
    await turns(2)
    while not one[1].errors.empty():
        assert not isinstance(one[1].errors.get_nowait(), socket.gaierror)
    await close(one)


async def test_t9_a_remote_address_with_broadcast_is_not_connected_to(loop: Loop) -> None:
    with plain() as reader:
        address = reader.getsockname()
        one = await endpoint(loop, remote_addr=address, allow_broadcast=True)
        assert one[0].get_extra_info("peername") is None
        one[0].sendto(b"x")
        one[0].sendto(b"y", address)
        assert [reader.recv(10), reader.recv(10)] == [b"x", b"y"]
        with pytest.raises(ValueError, match="Invalid address: must be None or"):
            one[0].sendto(b"z", (LOCAL, 9))
        await close(one)
