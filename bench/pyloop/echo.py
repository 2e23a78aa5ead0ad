"""Echoes to a client process: this process is the server, and its CPU time is what the row shows."""

from __future__ import annotations

import asyncio
import functools
import os
import tempfile
from pathlib import Path

from pyloop import certificates, client, servers
from pyloop.params import Params
from pyloop.report import Report, check


async def _serve(face: str, folder: Path, load: dict[str, int]) -> dict[str, float]:
    net, server = servers.FACES[face]
    async with server(folder) as address:
        trusted = {"certificate": str(folder / certificates.CERTIFICATE)} if net == "tls" else {}
        run = functools.partial(client.echo, net=net, at=address, server=os.getpid(), **trusted, **load)
        return await asyncio.get_running_loop().run_in_executor(None, run)


def run(loop: asyncio.AbstractEventLoop, params: Params) -> Report:
    face = params.text("face")
    load = {key: params.number(key, default) for key, default in _LOAD.items()}
    params.finish()
    client.separate()
    with tempfile.TemporaryDirectory() as folder:
        answer = loop.run_until_complete(_serve(face, Path(folder), load))
    operations = answer["ops"]
    check(operations > 0, "nothing came back")
    lost, sent = answer["lost"], answer["all_ops"]
    check(lost <= sent / 100, f"{lost:.0f} datagrams of {sent:.0f} were lost")
    return Report(
        value=operations / answer["seconds"],
        cpu_seconds=answer["server_cpu"],
        operations=operations,
        also={"client_percent": 100 * answer["client_cpu"] / answer["seconds"]},
    )


_LOAD = {"size": 1024, "conns": 1, "warm": 100, "millis": 300}
