"""Owns what the VM of tools/fuzz.sh does: it replays inputs, or hands itself over to libFuzzer."""

import gc
import sys
from pathlib import Path
from typing import Any

from erlang import _bridge

# Its two doors are in no other build.
bridge: Any = _bridge

WARM_UP = 10
ROUNDS = 5


def replay(inputs: list[bytes]) -> int:
    """Looks at each input several times. The blocks left over each time, once Python has warmed up."""
    for data in inputs * WARM_UP:
        bridge.fuzz_one(data)
    gc.collect()
    before = sys.getallocatedblocks()
    for data in inputs * ROUNDS:
        bridge.fuzz_one(data)
    gc.collect()
    return (sys.getallocatedblocks() - before) // ROUNDS


def main(words: list[str]) -> int:
    """The exit code. The first word is the program, the second `replay` or an argument of libFuzzer's."""
    program, *words = words
    if words[:1] != ["replay"]:
        bridge.fuzz(program, *words)
        return 0
    inputs = [path.read_bytes() for path in sorted(Path(words[1]).iterdir())]
    left = replay(inputs)
    # Python goes on making itself comfortable for long; what is lost by the way leaves more.
    fine = left < len(inputs) / 2
    print(f"fuzz: {len(inputs)} inputs, {WARM_UP + ROUNDS} times each; {left} blocks left over a round")
    print(f"{len(inputs) if fine else 0} passed, {0 if fine else len(inputs)} failed", flush=True)
    return 0 if fine else 1
