"""One measurement in one process. A loop that lacks what a row needs says so, with exit code 3."""

from __future__ import annotations

import importlib
import sys

from pyloop import loops
from pyloop.params import Params
from pyloop.report import Report
from pyloop.servers import FACES

_MODULES = ("calls", "tasks", "timers", "threads", "readers", "executor", "processes", "lateness", "idle")
TOPICS = {**{name: name for name in _MODULES}, **dict.fromkeys(FACES, "echo")}
"""By topic the module that measures it; each face of the echo server is a topic."""
LACKS = 3


def main(arguments: list[str]) -> int:
    if len(arguments) < 2 or arguments[0] not in TOPICS:
        print(f"usage: python -m pyloop <{'|'.join(TOPICS)}> <loop> [key=value …]", file=sys.stderr)
        return 2
    topic, name, *rest = arguments
    module = importlib.import_module(f"pyloop.{TOPICS[topic]}")
    params = Params.parse([*rest, f"face={topic}"] if topic in FACES else rest)
    loop = loops.make(name)
    try:
        report: Report = module.run(loop, params)
    except NotImplementedError as why:
        print(f"{name} lacks it: {why}" if str(why) else f"{name} lacks it", file=sys.stderr)
        return LACKS
    finally:
        loop.close()
    print(report.json(topic, name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
