"""redis-py against a real Redis, asyncpg against a real PostgreSQL, on stdlib's loop and on ours."""

import asyncio
from typing import Any

import asyncpg
import pytest
import redis.asyncio
from running import LOCAL, Run


def test_redis(run: Run, redis_port: int) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(host=LOCAL, port=redis_port) as client:
            await client.flushall()
            assert await client.ping()
            await client.set("key", b"\0\xff" * 100_000)
            assert await client.get("key") == b"\0\xff" * 100_000
            await asyncio.gather(*(client.incr("counter") for _ in range(80)))
            assert await client.get("counter") == b"80"
            async with client.pipeline() as pipe:
                for number in range(1000):
                    pipe.rpush("list", number)
                await pipe.execute()
            assert [int(item) for item in await client.lrange("list", 0, -1)] == list(range(1000))

    run(main())


def test_redis_publishes_and_a_blocked_reader_can_be_cancelled(run: Run, redis_port: int) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(host=LOCAL, port=redis_port) as client:
            async with client.pubsub() as pubsub:
                await pubsub.subscribe("news")
                assert (await pubsub.get_message(timeout=10))["type"] == "subscribe"
                await client.publish("news", "hello")
                assert (await pubsub.get_message(timeout=10))["data"] == b"hello"
            blocked = asyncio.create_task(client.blpop(["nothing"], timeout=0))
            done, _ = await asyncio.wait([blocked], timeout=0.05)
            assert not done
            blocked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await blocked
            assert await client.ping()

    run(main())


def test_postgresql(run: Run, postgres_port: int) -> None:
    async def main() -> None:
        options: dict[str, Any] = {
            "host": LOCAL,
            "port": postgres_port,
            "user": "tester",
            "database": "postgres",
        }
        connection = await asyncpg.connect(**options)
        await connection.execute("CREATE TEMPORARY TABLE rows (id int, data bytea)")
        rows = [(number, bytes([number % 256]) * 1000) for number in range(2000)]
        await connection.copy_records_to_table("rows", records=rows)
        found = await connection.fetch("SELECT id, data FROM rows ORDER BY id")
        assert [tuple(row) for row in found] == rows
        notices = asyncio.Queue[str]()
        await connection.add_listener("channel", lambda *words: notices.put_nowait(words[-1]))
        await connection.execute("NOTIFY channel, 'payload'")
        assert await notices.get() == "payload"
        with pytest.raises(asyncpg.UndefinedTableError):
            await connection.fetch("SELECT * FROM nothing")
        slow = asyncio.create_task(connection.fetch("SELECT pg_sleep(60)"))
        await asyncio.wait([slow], timeout=0.1)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()
        async with asyncpg.create_pool(**options, min_size=2, max_size=5) as pool:
            values = await asyncio.gather(
                *(pool.fetchval("SELECT $1::int * 2", number) for number in range(100))
            )
            assert values == [number * 2 for number in range(100)]

    run(main())
