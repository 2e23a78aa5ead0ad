"""One measurement: `python -m web <topic> <server> row=… [millis=…] [conns=…]` prints one JSON line.

This process starts the server and its client, a core each. The first run of the client only warms up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pyloop import client
from pyloop.params import Params
from pyloop.report import Report, check

from web import site
from web.servers import COMMANDS, HOST, Group, serving

SCRIPT = Path(__file__).with_name("load.lua")
RECORD = json.dumps({"name": "a record", "values": list(range(20)), "nested": {"yes": True, "no": None}})
MESSAGE = 100
"""Bytes of a message over a WebSocket."""


@dataclass(frozen=True)
class Row:
    method: str
    body: str
    expected: str


ROWS = {
    "plain": Row("GET", "", site.PLAIN.decode()),
    "large": Row("GET", "", site.LARGE.decode()),
    "echo": Row("POST", RECORD, RECORD),
    "sleep": Row("GET", "", site.PLAIN.decode()),
}


@dataclass(frozen=True)
class Load:
    """What a client did: operations in all, and how many a second."""

    operations: float
    rate: float


def _wrk(row: str, port: int, conns: int, millis: int) -> Load:
    seconds = max(1, millis // 1000)
    url = f"http://{HOST}:{port}/{row}"
    asked = ROWS[row]
    words = ["wrk", "--threads", "1", "--connections", str(conns), "--duration", f"{seconds}s"]
    words += ["--timeout", "10s", "--script", str(SCRIPT), url, "--"]
    words += [asked.method, asked.body, asked.expected]
    done = subprocess.run(client.elsewhere(words), capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    check(answer["wrong"] == 0 and answer["errors"] == 0, f"responses: {answer}")
    return Load(answer["requests"], answer["requests"] / answer["seconds"])


def _websocket(port: int, conns: int, millis: int) -> Load:
    answer = client.echo(
        net="websocket", at=f"{HOST}:{port}/websocket", size=MESSAGE, conns=conns, warm=0, millis=millis
    )
    return Load(answer["all_ops"], answer["ops"] / answer["seconds"])


def measured_load(row: str, port: int, conns: int, millis: int) -> Load:
    if row == "websocket":
        return _websocket(port, conns, millis)
    return _wrk(row, port, conns, millis)


def measure(server: Group, row: str, conns: int, millis: int) -> Report:
    measured_load(row, server.port, conns, millis // 3)
    cpu, own = server.cpu_seconds(), os.times()
    load = measured_load(row, server.port, conns, millis)
    cpu = server.cpu_seconds() - cpu
    after = os.times()
    busy = sum(after[2:4]) - sum(own[2:4])
    check(load.operations > 0, "nothing was answered")
    return Report(
        value=load.rate,
        cpu_seconds=cpu,
        operations=load.operations,
        also={
            "per_cpu": load.operations / cpu,
            "client_percent": 100 * busy / (after.elapsed - own.elapsed),
        },
    )


def main(arguments: list[str]) -> int:
    if len(arguments) < 2 or arguments[1] not in COMMANDS:
        print(f"usage: python -m web <topic> <{'|'.join(COMMANDS)}> row=… [key=value …]", file=sys.stderr)
        return 2
    topic, name, *rest = arguments
    params = Params.parse(rest)
    row, conns = params.text("row"), params.number("conns", 64)
    millis = params.number("millis", 2000)
    params.finish()
    client.separate()
    with serving(name) as server:
        report = measure(server, row, conns, millis)
    print(report.json(topic, name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
