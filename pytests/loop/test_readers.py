"""Readers that are removed, and whatever comes to their descriptors next: the same reader, others,
transports, and whoever gets the number.
"""

import asyncio
import os
import socket
from typing import Any

import pytest
from peers import Loop, Record, Sockets, close, pair, reopened, turns


async def once(loop: Loop, sock: socket.socket, peer: socket.socket, data: bytes) -> None:
    """A reader that is there for one event."""
    heard = loop.create_future()
    loop.add_reader(sock, heard.set_result, None)
    await turns(2)
    assert not heard.done()
    peer.send(data)
    await heard
    assert loop.remove_reader(sock) is True
    assert sock.recv(100) == data


async def used(loop: Loop) -> Sockets:
    """A pair whose first socket had a reader."""
    left, right = pair()
    await once(loop, left, right, b"first")
    return left, right


def polls(loop: Any) -> int:
    count: int = loop._native_stats()["polls"]
    return count


async def test_for_one_event_again_and_again(loop: Loop) -> None:
    left, right = await used(loop)
    for number in range(20):
        await once(loop, left, right, b"%d" % number)
        assert loop.remove_reader(left) is False
    close(left, right)


async def test_added_and_removed_in_one_turn(loop: Loop) -> None:
    left, right = pair()
    right.send(b"unheard")
    for _ in range(10):
        loop.add_reader(left, pytest.fail, "removed before the turn was over")
        loop.remove_reader(left)
    await turns(5)
    assert left.recv(100) == b"unheard"
    close(left, right)


async def test_data_that_nobody_reads_wakes_nobody(loop: Loop, column: str) -> None:
    left, right = await used(loop)
    right.send(b"early")
    await asyncio.sleep(0.01)
    if column == "ours":
        before = polls(loop)
        await asyncio.sleep(0.05)
        assert polls(loop) - before < 10
    heard = loop.create_future()
    loop.add_reader(left, heard.set_result, None)
    await heard
    loop.remove_reader(left)
    assert left.recv(100) == b"early"
    close(left, right)


async def test_a_peer_that_is_gone_wakes_nobody(loop: Loop, column: str) -> None:
    left, right = await used(loop)
    right.close()
    await asyncio.sleep(0.01)
    if column == "ours":
        before = polls(loop)
        await asyncio.sleep(0.05)
        assert polls(loop) - before < 10
    assert await loop.sock_recv(left, 10) == b""
    close(left)


@pytest.mark.parametrize("order", ["removed first", "closed first"])
async def test_f1_a_number_with_a_new_owner_is_listened_to_anew(loop: Loop, order: str) -> None:
    for _ in range(5):
        left, right = await used(loop)
        number = left.fileno()
        if order == "closed first":
            loop.add_reader(number, pytest.fail, "it was closed")
            left.close()
            assert loop.remove_reader(number) is True
        left.close()
        again, peer = reopened(number)
        peer.send(b"for nobody yet")
        await turns(3)
        assert again.recv(100) == b"for nobody yet"
        await once(loop, again, peer, b"second")
        close(again, peer, right)


async def test_f1_what_comes_for_a_duplicate_of_a_closed_socket_reaches_nobody(loop: Loop) -> None:
    left, right = await used(loop)
    copy, number = left.dup(), left.fileno()
    left.close()
    again, peer = reopened(number)
    heard = loop.create_future()
    loop.add_reader(again, heard.set_result, None)
    right.send(b"for the duplicate")
    await turns(5)
    assert not heard.done()
    peer.send(b"second")
    await heard
    loop.remove_reader(again)
    assert again.recv(100) == b"second"
    assert copy.recv(100) == b"for the duplicate"
    close(copy, again, peer, right)


async def test_f1_a_number_that_was_given_to_another_file_is_listened_to_anew(loop: Loop) -> None:
    left, right = await used(loop)
    other, peer = pair()
    os.dup2(other.fileno(), left.fileno())
    right.close()
    await once(loop, left, peer, b"second")
    close(left, other, peer)


async def test_closed_numbers_are_refused_afterwards(loop: Loop) -> None:
    left, right = await used(loop)
    number = left.fileno()
    left.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        loop.add_reader(number, pytest.fail)
    assert loop.remove_reader(number) is False
    close(right)


async def test_a_writer_on_what_had_a_reader(loop: Loop) -> None:
    left, right = await used(loop)
    room = loop.create_future()
    loop.add_writer(left, room.set_result, None)
    right.send(b"unheard")
    await room
    assert loop.remove_writer(left) is True
    await turns(3)
    heard = loop.create_future()
    loop.add_reader(left, heard.set_result, None)
    loop.add_writer(left, lambda: None)
    await heard
    assert loop.remove_reader(left) is True
    await turns(3)
    assert loop.remove_writer(left) is True
    assert left.recv(100) == b"unheard"
    close(left, right)


async def test_a_transport_on_what_had_a_reader(loop: Loop) -> None:
    left, right = await used(loop)
    transport, protocol = await loop.create_connection(Record, sock=left)
    right.send(b"data")
    while not protocol.data:
        await asyncio.sleep(0)
    assert bytes(protocol.data) == b"data"
    transport.close()
    assert await protocol.lost is None
    close(right)


async def test_a_call_on_what_had_a_reader_and_the_reverse(loop: Loop) -> None:
    left, right = await used(loop)
    for number in range(5):
        task = loop.create_task(loop.sock_recv(left, 10))
        await turns(2)
        right.send(b"called")
        assert await task == b"called"
        await once(loop, left, right, b"%d" % number)
    close(left, right)


async def test_a_reader_that_removes_itself_while_there_is_more(loop: Loop) -> None:
    left, right = pair()
    heard: list[bytes] = []

    def read() -> None:
        heard.append(left.recv(1))
        loop.remove_reader(left)

    right.send(b"abc")
    for number in range(1, 4):
        loop.add_reader(left, read)
        while len(heard) < number:
            await asyncio.sleep(0)
        await turns(3)
        assert len(heard) == number
    assert heard == [b"a", b"b", b"c"]
    close(left, right)
