"""WebSocket frame by frame: a table of cases, each spoken in bytes to an app that echoes (RFC 6455).

The sections are those of the protocol suites that servers are tested by: framing, pings, reserved bits,
opcodes, fragments, UTF-8, the closing handshake, limits. A case is what is sent, and what must come back; who
breaks the rules is told by a close frame with a code, and may have had its answers before.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from serving import Receive, Scope, Send, get, http, run, serving

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
PROTOCOL_ERROR, NOT_TEXT, TOO_LARGE = 1002, 1007, 1009
LARGEST = 1 << 20

Reply = tuple[int, bytes]


def frame(opcode: int, payload: bytes = b"", final: bool = True, reserved: int = 0) -> bytes:
    """A frame of a client, masked (5.2, 5.3)."""
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 65536:
        length = bytes([0x80 | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([0x80 | 127]) + size.to_bytes(8, "big")
    key = b"\x37\xfa\x21\x3d"
    hidden = int.from_bytes(payload, "little") ^ int.from_bytes((key * (size // 4 + 1))[:size], "little")
    return bytes([final << 7 | reserved << 4 | opcode]) + length + key + hidden.to_bytes(size, "little")


def fragments(opcode: int, payload: bytes, size: int) -> bytes:
    """A message in frames of a size."""
    parts = [payload[at : at + size] for at in range(0, len(payload), size)]
    last = len(parts) - 1
    return b"".join(frame(CONTINUATION if n else opcode, part, n == last) for n, part in enumerate(parts))


def closing(code: int | None, reason: bytes = b"") -> bytes:
    return frame(CLOSE, b"" if code is None else code.to_bytes(2, "big") + reason)


@dataclass(frozen=True)
class Case:
    name: str
    sent: bytes
    replies: tuple[Reply, ...] = ()
    """What comes back before the end."""
    code: int | None = None
    """Why the server ends it; nothing if the client does, by closing in the end."""
    chop: int = 0
    """How many bytes are written at once; 0 for all."""


def said(name: str, sent: bytes, *replies: Reply, chop: int = 0) -> Case:
    return Case(name, sent, replies, None, chop)


def wrong(name: str, sent: bytes, *replies: Reply, code: int = PROTOCOL_ERROR) -> Case:
    return Case(name, sent, replies, code)


def framing() -> Iterator[Case]:
    for opcode in (TEXT, BINARY):
        fill = b"*" if opcode == TEXT else b"\xfe"
        for size in (0, 125, 126, 127, 128, 65535, 65536):
            yield said(f"1 {opcode} of {size}", frame(opcode, fill * size), (opcode, fill * size))
        yield said(f"1 {opcode} chopped", frame(opcode, fill * 65536), (opcode, fill * 65536), chop=997)


def pings() -> Iterator[Case]:
    for name, payload in (("empty", b""), ("text", b"Hello"), ("bytes", bytes(range(250, 256)))):
        yield said(f"2 ping {name}", frame(PING, payload), (PONG, payload))
    largest = b"\xfe" * 125
    yield said("2 ping of 125", frame(PING, largest), (PONG, largest))
    yield said("2 ping byte by byte", frame(PING, largest), (PONG, largest), chop=1)
    yield wrong("2 ping of 126", frame(PING, b"x" * 126))
    yield said("2 pong nobody asked for", frame(PONG) + frame(TEXT, b"a"), (TEXT, b"a"))
    yield said("2 pong with payload, then ping", frame(PONG, b"p") + frame(PING, b"q"), (PONG, b"q"))
    ten = [b"payload-%d" % number for number in range(10)]
    for chop in (0, 1):
        replies = ((PONG, payload) for payload in ten)
        yield said(f"2 ten pings, chop {chop}", b"".join(frame(PING, p) for p in ten), *replies, chop=chop)


def reserved() -> Iterator[Case]:
    for bits in range(1, 8):
        yield wrong(f"3 bits {bits} of text", frame(TEXT, b"x", reserved=bits))
        yield wrong(f"3 bits {bits} of ping", frame(PING, b"x", reserved=bits))
        yield wrong(f"3 bits {bits} of close", frame(CLOSE, b"", reserved=bits))
    good = frame(TEXT, b"good")
    yield wrong("3 bits after a message", good + frame(BINARY, b"x", reserved=1) + good, (TEXT, b"good"))


def opcodes() -> Iterator[Case]:
    for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):
        for payload in (b"", b"reserved"):
            yield wrong(f"4 opcode {opcode} with {len(payload)}", frame(opcode, payload))
    yield wrong("4 opcode 5 after a message", frame(TEXT, b"a") + frame(5) + frame(PING), (TEXT, b"a"))


def parts() -> Iterator[Case]:
    first, last = frame(TEXT, b"one ", final=False), frame(CONTINUATION, b"two")
    whole = (TEXT, b"one two")
    for opcode in (PING, PONG, CLOSE):
        yield wrong(f"5 control {opcode} in parts", frame(opcode, b"", final=False) + last)
    for chop in (0, 1):
        yield said(f"5 two parts, chop {chop}", first + last, whole, chop=chop)
        middle = first + frame(PING, b"between") + last
        yield said(f"5 ping between, chop {chop}", middle, (PONG, b"between"), whole, chop=chop)
    yield said("5 pong between", first + frame(PONG, b"between") + last, whole)
    yield said("5 binary in parts", fragments(BINARY, b"\xff" * 1000, 100), (BINARY, b"\xff" * 1000))
    yield said(
        "5 empty parts",
        frame(TEXT, final=False) + frame(CONTINUATION, final=False) + frame(CONTINUATION),
        (TEXT, b""),
    )
    yield said(
        "5 empty part amid",
        frame(TEXT, final=False) + frame(CONTINUATION, b"x", False) + frame(CONTINUATION),
        (TEXT, b"x"),
    )
    for final in (True, False):
        yield wrong(f"5 continues nothing, final {final}", frame(CONTINUATION, b"x", final))
        yield wrong(
            f"5 continues what is over, final {final}",
            first + last + frame(CONTINUATION, b"x", final),
            whole,
        )
    yield wrong("5 text inside of text", first + frame(TEXT, b"x"))
    yield wrong("5 binary inside of text", first + frame(BINARY, b"x"))
    amid = frame(CONTINUATION, b"2", final=False)
    yield said(
        "5 five parts and two pings",
        frame(TEXT, b"1", False) + amid + frame(PING, b"a") + amid + amid + frame(PING, b"b") + last,
        (PONG, b"a"),
        (PONG, b"b"),
        (TEXT, b"1222two"),
    )


GOOD_TEXTS = {
    "Greek": "κόσμε".encode(),
    "nul": b"\x00",
    "first of two": b"\xc2\x80",
    "first of three": b"\xe0\xa0\x80",
    "first of four": b"\xf0\x90\x80\x80",
    "last of one": b"\x7f",
    "last of two": b"\xdf\xbf",
    "last of three": b"\xef\xbf\xbf",
    "last of all": b"\xf4\x8f\xbf\xbf",
    "before surrogates": b"\xed\x9f\xbf",
    "after surrogates": b"\xee\x80\x80",
    "replacement": b"\xef\xbf\xbd",
    "no characters": b"\xef\xbf\xbe\xf0\x9f\xbf\xbe\xf4\x8f\xbf\xbf",
    "byte order mark": b"\xef\xbb\xbfx",
    "combined": "\U0001f468‍\U0001f469‍\U0001f466e\u0301".encode(),
}
BAD_TEXTS = {
    "above all": b"\xf4\x90\x80\x80",
    "five bytes": b"\xf8\x88\x80\x80\x80",
    "six bytes": b"\xfc\x84\x80\x80\x80\x80",
    "last of five": b"\xfb\xbf\xbf\xbf\xbf",
    "continuation": b"\x80",
    "last continuation": b"\xbf",
    "continuations": b"\x80\xbf\x80\xbf",
    "two lonely": b"\xc2 \xdf ",
    "three lonely": b"\xe0 \xef ",
    "four lonely": b"\xf0 \xf4 ",
    "cut after one of two": b"\xc2",
    "cut after two of three": b"\xe0\xa0",
    "cut after three of four": b"\xf0\x90\x80",
    "impossible": b"\xfe",
    "impossible too": b"\xff",
    "long slash in two": b"\xc0\xaf",
    "long slash in three": b"\xe0\x80\xaf",
    "long slash in four": b"\xf0\x80\x80\xaf",
    "long in two": b"\xc1\xbf",
    "long in three": b"\xe0\x9f\xbf",
    "long in four": b"\xf0\x8f\xbf\xbf",
    "long nul": b"\xc0\x80",
    "high surrogate": b"\xed\xa0\x80",
    "low surrogate": b"\xed\xbf\xbf",
    "pair of surrogates": b"\xed\xa0\x80\xed\xb0\x80",
    "good, then bad": "κόσμε".encode() + b"\xed\xa0\x80edited",
}


def texts() -> Iterator[Case]:
    for name, text in GOOD_TEXTS.items():
        yield said(f"6 {name}", frame(TEXT, text), (TEXT, text))
        yield said(f"6 {name}, byte by byte", fragments(TEXT, text, 1), (TEXT, text))
        yield said(f"6 {name}, chopped", frame(TEXT, text), (TEXT, text), chop=1)
    for name, text in BAD_TEXTS.items():
        yield wrong(f"6 {name}", frame(TEXT, text), code=NOT_TEXT)
        yield wrong(f"6 {name}, byte by byte", fragments(TEXT, text, 1), code=NOT_TEXT)
        yield said(f"6 {name}, as bytes", frame(BINARY, text), (BINARY, text))


def closes() -> Iterator[Case]:
    good = frame(TEXT, b"x")
    yield Case("7 two closes", closing(1000) + closing(1000), code=1000)
    yield Case("7 ping after close", closing(1000) + frame(PING), code=1000)
    yield Case("7 text after close", closing(1000) + good, code=1000)
    yield Case("7 close amid a message", frame(TEXT, b"x", final=False) + closing(1000), code=1000)
    yield Case(
        "7 large, then close", frame(TEXT, b"x" * 262144) + closing(1000), ((TEXT, b"x" * 262144),), 1000
    )
    yield Case("7 close without a code", closing(None), code=0)
    yield wrong("7 close of one byte", frame(CLOSE, b"\x03"))
    for reason in (b"", b"Hello", b"*" * 123):
        yield Case(f"7 reason of {len(reason)}", closing(1000, reason), code=1000)
    yield wrong("7 reason of 124", closing(1000, b"*" * 124))
    yield wrong("7 reason that is no text", closing(1000, b"\xce\xed\xa0\x80"), code=NOT_TEXT)
    for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999):
        yield Case(f"7 code {code}", closing(code), code=code)
    for code in (0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65535):
        yield wrong(f"7 no code {code}", closing(code))


def limits() -> Iterator[Case]:
    for opcode in (TEXT, BINARY):
        large = b"*" * LARGEST
        yield said(f"9 {opcode} of the largest size", frame(opcode, large), (opcode, large))
        for size in (4096, 65536):
            yield said(f"9 {opcode} in parts of {size}", fragments(opcode, large, size), (opcode, large))
        yield said(f"9 {opcode} chopped", frame(opcode, large), (opcode, large), chop=1031)
        yield wrong(f"9 {opcode} too large", frame(opcode, large + b"*"), code=TOO_LARGE)
        yield wrong(f"9 {opcode} too large in parts", fragments(opcode, large + b"*", 65536), code=TOO_LARGE)
    yield said("10 parts of 1300", fragments(TEXT, b"*" * 65536, 1300), (TEXT, b"*" * 65536))


CASES = [
    case
    for section in (framing, pings, reserved, opcodes, parts, texts, closes, limits)
    for case in section()
]


@http
async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        try:
            await send({**message, "type": "websocket.send"})
        except OSError:
            return


async def read_frame(reader: asyncio.StreamReader) -> Reply:
    """A frame of the server: whole, unmasked, in the shortest form."""
    first, size = await reader.readexactly(2)
    assert first & 0xF0 == 0x80 and size < 128
    if size >= 126:
        width = 2 if size == 126 else 8
        size = int.from_bytes(await reader.readexactly(width), "big")
        assert size >= (126 if width == 2 else 65536)
    return first & 0x0F, await reader.readexactly(size)


async def speak(server: Any, case: Case) -> None:
    reader, writer = await asyncio.open_connection(*server.address)
    key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
    upgrade = ("upgrade: websocket", "connection: upgrade", "sec-websocket-version: 13", key)
    writer.write(get("/", *upgrade, close=False))
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")

    async def listen() -> list[Reply]:
        heard: list[Reply] = []
        while not heard or heard[-1][0] != CLOSE:
            heard.append(await read_frame(reader))
            if case.code is None and len(heard) == len(case.replies):
                writer.write(closing(1000, b"done"))
        assert await reader.read() == b""
        return heard

    listening = asyncio.ensure_future(listen())
    if case.code is None and not case.replies:
        writer.write(case.sent + closing(1000, b"done"))
    else:
        step = case.chop or max(1, len(case.sent))
        for at in range(0, len(case.sent), step):
            # Who is refused may not be listened to until its end.
            if writer.is_closing() or listening.done():
                break
            writer.write(case.sent[at : at + step])
            await asyncio.sleep(0)
    *replies, (_, closed) = await listening
    writer.close()
    if case.code is None:
        assert replies == list(case.replies) and closed == (1000).to_bytes(2, "big") + b"done"
    else:
        assert tuple(replies) == case.replies[: len(replies)]
        assert closed[:2] == (case.code.to_bytes(2, "big") if case.code else b"")


SECTIONS = list(dict.fromkeys(case.name.split()[0] for case in CASES))


@pytest.mark.parametrize("section", SECTIONS)
def test_every_case_is_answered_as_the_standard_has_it(section: str) -> None:
    cases = [case for case in CASES if case.name.split()[0] == section]
    assert len(cases) == len({case.name for case in cases})

    async def main() -> None:
        async with serving(echo, max_message=LARGEST) as server:
            for case in cases:
                try:
                    async with asyncio.timeout(30):
                        await speak(server, case)
                except BaseException as error:
                    error.add_note(f"the case: {case.name}")
                    raise

    run(main())
