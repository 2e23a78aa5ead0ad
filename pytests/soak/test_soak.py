"""The short soak, on stdlib's loop and on ours: SOAK_SECONDS each (20). A failure names the seed to repeat
it with.
"""

import os
import random

import loops
import pytest
import soak

SECONDS = float(os.environ.get("SOAK_SECONDS", "20"))


@pytest.mark.parametrize("column", [column for column in loops.COLUMNS if column != "uvloop"])
@pytest.mark.parametrize("debug", [False, True], ids=["plain", "debug"])
def test_every_byte_arrives(column: str, debug: bool) -> None:
    seed = random.randrange(1 << 32)
    share = SECONDS if column == "ours" else min(SECONDS, 10)  # stdlib's is there to try the soak itself
    result = soak.soak(
        loops.factory(column), seconds=share, connections=10**9, concurrency=50, seed=seed, debug=debug
    )
    assert result.wrong == [], f"seed {seed}"
    assert result.counts["connections"] > 50
    assert result.bytes > 1_000_000
