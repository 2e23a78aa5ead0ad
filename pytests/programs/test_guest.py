"""trio as a guest: its scheduler runs inside our loop, and both make progress."""

import asyncio
from typing import Any

import trio
from running import LOCAL, Run


def test_trio_in_guest_mode(run: Run) -> None:
    async def trio_main(port: int) -> bytes:
        with trio.fail_after(30):
            stream = await trio.open_tcp_stream(LOCAL, port)
            async with stream:
                await stream.send_all(b"from trio")
                await trio.sleep(0.01)
                return bytes(await stream.receive_some(100))

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.read(100)).upper())
            await writer.drain()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(serve, LOCAL, 0)
        finished: asyncio.Future[Any] = loop.create_future()
        trio.lowlevel.start_guest_run(
            trio_main,
            server.sockets[0].getsockname()[1],
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=loop.call_soon,
            done_callback=finished.set_result,
            host_uses_signal_set_wakeup_fd=True,
        )
        outcome = await finished
        assert outcome.unwrap() == b"FROM TRIO"
        server.close()
        await server.wait_closed()

    run(main())
