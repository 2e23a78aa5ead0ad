"""One measurement in one process."""

from __future__ import annotations

import importlib
import sys

from pyloop.params import Params
from pyloop.report import Report

TOPICS = {"nodes": "nodes", "redis": "commands"}


def main(arguments: list[str]) -> int:
    if len(arguments) < 2 or arguments[0] not in TOPICS:
        print(f"usage: python -m pydag <{'|'.join(TOPICS)}> <arm> [key=value …]", file=sys.stderr)
        return 2
    topic, arm, *rest = arguments
    module = importlib.import_module(f"pydag.{TOPICS[topic]}")
    report: Report = module.run(arm, Params.parse(rest))
    print(report.json(topic, arm))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
