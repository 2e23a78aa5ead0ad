"""Who is ahead: medians, the direction of ratios, the choice of the best peer."""

from __future__ import annotations

import pytest
import stats
from model import Better
from rows import arm, row


def test_a_summary_is_the_median_and_both_ends() -> None:
    assert stats.summarise([5.0, 1.0, 9.0]) == stats.Summary(median=5.0, low=1.0, high=9.0)


@pytest.mark.parametrize(
    ("better", "ours", "peer", "expected"),
    [
        ("higher", 30.0, 10.0, 3.0),
        ("higher", 10.0, 40.0, 0.25),
        ("lower", 10.0, 30.0, 3.0),
        ("lower", 40.0, 10.0, 0.25),
    ],
)
def test_a_ratio_above_one_means_ours_is_better_for_rates_and_for_times(
    better: Better, ours: float, peer: float, expected: float
) -> None:
    assert stats.ratio(ours, peer, better) == pytest.approx(expected)


def test_the_best_peer_of_a_rate_is_the_fastest() -> None:
    found = stats.verdict(row("higher", arm("evloop", 10), arm("tokio", 5), arm("libuv", 8)), "evloop")
    assert found is not None
    assert (found.peer["name"], found.ahead) == ("libuv", True)


def test_the_best_peer_of_a_latency_is_the_shortest() -> None:
    found = stats.verdict(row("lower", arm("evloop", 10), arm("tokio", 5), arm("libuv", 8)), "evloop")
    assert found is not None
    assert (found.peer["name"], found.ahead, found.ratio) == ("tokio", False, 0.5)


def test_a_family_is_represented_by_its_better_arm() -> None:
    both = (arm("tokio recv", 5, family="tokio"), arm("tokio recv_many", 6, family="tokio"))
    assert stats.families(row("higher", *both))["tokio"]["name"] == "tokio recv_many"
    assert stats.families(row("lower", *both))["tokio"]["name"] == "tokio recv"


def test_an_arm_that_does_other_work_is_not_compared_with() -> None:
    early = arm("libuv, timeout 1", 1, family="libuv", ranked=False)
    found = stats.verdict(row("lower", arm("evloop", 2), arm("libuv", 4), early), "evloop")
    assert found is not None
    assert found.ratio == 2.0


@pytest.mark.parametrize(
    ("count", "expected"),
    # Of sign tests: of five nothing can be left out, of twenty five at either end.
    [
        (1, (0, 0)),
        (2, (0, 1)),
        (5, (0, 4)),
        (6, (0, 5)),
        (8, (0, 7)),
        (9, (1, 7)),
        (20, (5, 14)),
        (60, (22, 37)),
    ],
)
def test_the_median_lies_between_samples_that_are_not_among_the_ends(
    count: int, expected: tuple[int, int]
) -> None:
    assert stats.middle(range(count)) == expected


def test_a_row_is_open_until_the_middle_of_its_rounds_is_on_one_side() -> None:
    def found(*ours: float) -> stats.Verdict:
        verdict = stats.verdict(
            row("higher", arm("evloop", *ours), arm("tokio", *[10] * len(ours))), "evloop"
        )
        assert verdict is not None
        return verdict

    assert found(9, 11, 11, 11, 11).open
    settled = found(9, 9, *[11] * 18)
    assert settled.close and not settled.open
    behind = found(11, 11, *[9] * 18)
    assert behind.close and not behind.open
    assert not found(10, 10, 10, 10, 10).open


def test_rounds_that_end_differently_are_marked() -> None:
    alike = stats.verdict(row("higher", arm("evloop", 10, 11, 12), arm("tokio", 7, 8, 9)), "evloop")
    mixed = stats.verdict(row("higher", arm("evloop", 9, 11, 12), arm("tokio", 7, 8, 13)), "evloop")
    assert alike is not None and not alike.overlap
    assert mixed is not None and mixed.overlap and mixed.ahead


def test_a_machine_that_changes_its_speed_does_so_for_both() -> None:
    """By their medians the peer would win: it was lucky to have its middle sample in a fast time."""
    ours, peer = arm("evloop", 11, 22, 12, 23, 11), arm("tokio", 10, 20, 13, 21, 10)
    assert ours["median"] < peer["median"]
    found = stats.verdict(row("higher", ours, peer), "evloop")
    assert found is not None
    assert found.ahead and found.ratio == pytest.approx(1.1)


def test_the_best_peer_is_the_one_that_ours_does_worst_against() -> None:
    """Though the other has the higher median."""
    ours, steady, lucky = arm("evloop", 10, 20, 10), arm("tokio", 9, 19, 9), arm("libuv", 5, 10, 30)
    found = stats.verdict(row("higher", ours, steady, lucky), "evloop")
    assert found is not None
    assert found.peer["name"] == "tokio"


def test_without_ours_or_without_a_peer_there_is_no_verdict() -> None:
    assert stats.verdict(row("higher", arm("tokio", 1)), "evloop") is None
    assert stats.verdict(row("higher", arm("evloop", 1)), "evloop") is None


def test_equal_is_not_ahead() -> None:
    found = stats.verdict(row("higher", arm("evloop", 10), arm("tokio", 10)), "evloop")
    assert found is not None
    assert not found.ahead


def test_a_ratio_to_one_peer_is_taken_round_by_round() -> None:
    found = stats.against(row("higher", arm("evloop", 10, 40), arm("libuv", 5, 10)), "evloop", "libuv")
    assert found == stats.Summary(median=3.0, low=2.0, high=4.0)
    turned = stats.against(row("lower", arm("evloop", 10, 40), arm("libuv", 5, 10)), "evloop", "libuv")
    assert turned == stats.Summary(median=0.375, low=0.25, high=0.5)


def test_a_ratio_to_a_peer_that_is_not_ranked_is_taken_too() -> None:
    measured = row("higher", arm("evloop", 10), arm("tokio", 8), arm("floor", 20, ranked=False))
    assert stats.against(measured, "evloop", "floor") == stats.Summary(median=0.5, low=0.5, high=0.5)
    found = stats.verdict(measured, "evloop")
    assert found is not None and found.peer["name"] == "tokio"


def test_a_ratio_to_a_peer_that_was_not_measured_is_none() -> None:
    assert stats.against(row("higher", arm("evloop", 10)), "evloop", "libuv") is None


def test_equal_counts_are_level_and_no_loss_even_at_zero() -> None:
    found = stats.verdict(row("lower", arm("evloop", 0), arm("libuv", 0)), "evloop")
    assert found is not None
    assert found.level and not found.ahead


def test_a_geometric_mean_leaves_out_what_has_no_logarithm() -> None:
    assert stats.geometric_mean([2.0, 8.0, float("inf"), 0.0]) == pytest.approx(4.0)
    assert stats.geometric_mean([]) is None


def test_the_mean_of_a_group_counts_the_rows_that_both_have() -> None:
    rows = [
        row("higher", arm("evloop", 8), arm("libuv", 2)),
        row("lower", arm("evloop", 1), arm("libuv", 9)),
        row("higher", arm("evloop", 5)),
    ]
    mean = stats.group_mean(rows, "evloop", "libuv")
    assert mean is not None
    assert mean[0] == pytest.approx(6.0) and mean[1] == 2
    assert stats.group_mean(rows[2:], "evloop", "libuv") is None
