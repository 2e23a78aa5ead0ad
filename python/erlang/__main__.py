"""`python -m erlang`: version, Python, mode, and whether the loop works here.

`python -m erlang serve module:app` is the web server.
"""

import asyncio
import os
import platform
import socket
import sys
import time
from collections.abc import Callable

from . import ErlangEventLoop, __version__, detect_mode, run


def _timers() -> str:
    async def nap() -> float:
        start = time.monotonic()
        await asyncio.sleep(0.01)
        return time.monotonic() - start

    took = run(nap())
    if took < 0.01:
        raise RuntimeError(f"sleep(0.01) took {took * 1e3:.3f} ms: it was early")
    return f"sleep(0.01) took {took * 1e3:.3f} ms"


def _tcp() -> str:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(4))
        await writer.drain()
        writer.close()

    async def talk() -> bytes:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"ping")
        answer = await reader.readexactly(4)
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return answer

    return f"echoed {run(talk())!r} over TCP"


def _subprocess() -> str:
    async def spawn() -> int:
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", "raise SystemExit(7)")
        return await child.wait()

    code = run(spawn())
    if code != 7:
        raise RuntimeError(f"a child that ended with 7 was reported to have ended with {code}")
    return "a child's exit status arrives" + ("" if hasattr(os, "pidfd_open") else " (by thread: no pidfd)")


def _ipv6() -> str:
    with socket.socket(socket.AF_INET6) as sock:
        sock.bind(("::1", 0))
    return "::1 is there"


CHECKS: dict[str, Callable[[], str]] = {
    "timers": _timers,
    "tcp": _tcp,
    "subprocess": _subprocess,
    "ipv6": _ipv6,
}


def main() -> int:
    if sys.argv[1:2] == ["serve"]:
        from ._serve import main as serve

        return serve(sys.argv[2:])
    print(f"erlang     {__version__}")
    print(f"python     {platform.python_version()} ({sys.executable})")
    print(f"mode       {detect_mode().value}")
    loop = ErlangEventLoop()
    print(f"loop       {type(loop).__qualname__} on {platform.system()} {platform.release()}")
    loop.close()
    failed = 0
    for name, check in CHECKS.items():
        try:
            print(f"ok         {name}: {check()}")
        except Exception as error:
            failed += 1
            print(f"failed     {name}: {type(error).__name__}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
