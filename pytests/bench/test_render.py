"""The page says what the numbers say: losses show as losses, units are readable, suites have sections."""

from __future__ import annotations

import cells
import render
from results import RowResult, SuiteResult
from rows import arm, row, suite


def line_of(page: str, start: str) -> str:
    return next(line for line in page.splitlines() if line.startswith(start))


def test_a_losing_rate_is_shown_as_behind() -> None:
    page = render.render([suite(row("higher", arm("evloop", 10e6), arm("libuv", 20e6)))])
    assert "**behind**" in line_of(page, "| the posts.1 row")
    assert "0.50x" in line_of(page, "| the posts.1 row")
    assert "Ahead of the best peer in 0 of 1 rows." in page
    assert "- Posts: the posts.1 row, 0.50x of libuv" in page


def test_a_losing_latency_is_shown_as_behind() -> None:
    page = render.render([suite(row("lower", arm("evloop", 30), arm("libuv", 15)))])
    assert "**behind**" in line_of(page, "| the posts.1 row")


def test_a_winning_row_is_ahead_and_not_listed_among_the_losses() -> None:
    page = render.render([suite(row("lower", arm("evloop", 15), arm("libuv", 30)))])
    assert "2.00x | ahead |" in line_of(page, "| the posts.1 row")
    assert "behind" not in page.lower()


def test_a_row_that_is_behind_comes_with_its_profile() -> None:
    losing = row("higher", arm("evloop", 1), arm("libuv", 2))
    losing["profiles"] = {"evloop": [{"percent": 61.5, "where": "malloc (libc.so.6)"}], "libuv": []}
    page = render.render([suite(losing)])
    assert "| `malloc (libc.so.6)` | 61.5 % |" in page


def test_a_loss_without_a_profile_says_so() -> None:
    page = render.render([suite(row("higher", arm("evloop", 1), arm("libuv", 2)))])
    assert "No profile was taken" in page


def test_an_unranked_arm_is_named_with_its_reason() -> None:
    page = render.render(
        [suite(row("lower", arm("evloop", 2), arm("libuv", 4), arm("other", 1, ranked=False)))]
    )
    assert "not ranked, other 1.00 µs (1.00 to 1.00): does other work." in page


def test_a_row_without_ours_is_not_counted_as_ahead() -> None:
    page = render.render([suite(row("higher", arm("libuv", 2)))])
    assert "not measured" in line_of(page, "| the posts.1 row")
    assert "Ahead of the best peer in 0 of 1 rows." in page


def test_every_suite_has_a_section_with_machine_and_versions() -> None:
    first, second = suite(row("higher", arm("evloop", 1))), suite(row("higher", arm("evloop", 1)))
    second["title"] = "The Python loop"
    page = render.render([first, second])
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## The event loop",
        "## The Python loop",
    ]
    assert page.count("| CPU | a processor |") == 2
    assert page.count("| tokio | 1.0.0 |") == 2


def test_rates_are_scaled_and_times_are_not() -> None:
    assert cells.number(7_217_310.0, "posts/s") == "7.22 M/s"
    assert cells.number(984_578.0, "posts/s") == "985 k/s"
    assert cells.number(1275.6, "ms") == "1276 ms"
    assert cells.number(8.476, "us") == "8.48 µs"


def test_two_percentiles_of_one_run_share_a_line_of_cpu_time() -> None:
    arms = (arm("evloop", 1), arm("tokio", 2))
    page = render.render([suite(row("lower", *arms, id="wakeup"), row("lower", *arms, id="wakeup#p99"))])
    assert page.count("| 0.500 | 0.500 |") == 1


def compared(*rows: RowResult) -> SuiteResult:
    found = suite(*rows)
    found["reference"] = "libuv"
    found["topics"][0]["group"] = "network"
    return found


def test_a_reference_gives_a_column_with_the_spread_and_a_mean_of_each_group() -> None:
    page = render.render([compared(row("higher", arm("evloop", 10, 40), arm("libuv", 5, 10)))])
    assert line_of(page, "| the posts.1 row").endswith("| 3.00x (2.00 to 4.00) |")
    assert "| network | 3.00x (1) |" in page
    assert "![Ratios to libuv: network](plots/evloop-network.svg)" in page


def test_a_table_without_the_reference_has_no_column_for_it() -> None:
    page = render.render([compared(row("higher", arm("evloop", 10), arm("tokio", 5)))])
    assert "to libuv" not in page.split("### ")[1]
    unranked = arm("libuv", 20, ranked=False)
    page = render.render([compared(row("higher", arm("evloop", 10), arm("tokio", 5), unranked))])
    assert line_of(page, "| the posts.1 row").endswith("| 0.50x (0.50 to 0.50) |")


def test_every_plot_the_page_calls_for_is_drawn() -> None:
    found = compared(row("higher", arm("evloop", 10), arm("libuv", 5)))
    page = render.render([found])
    assert all(f"]({name})" in page for name in render.plots(found))
    assert list(render.plots(found)) == ["plots/evloop-network.svg"]
    assert render.plots(suite(row("higher", arm("evloop", 1)))) == {}


def test_cpu_time_is_compared_with_the_reference_too() -> None:
    ours, peer = arm("evloop", 10), arm("libuv", 10)
    ours["cpu_us"], peer["cpu_us"] = 2.0, 5.0
    page = render.render([compared(row("higher", ours, peer))])
    assert "| the posts.1 row | 2.00 µs | 5.00 µs | 2.50x |" in page
    assert "| network, CPU time | 2.50x (1) |" in page


def test_cpu_time_an_operation_is_shown_where_it_is_known() -> None:
    known = arm("evloop", 10)
    known["cpu_us"] = 12.34
    page = render.render([suite(row("higher", known, arm("libuv", 5)))])
    assert "CPU time an operation" in page
    assert "| the posts.1 row | 12.3 µs | 0.500 |" in page


def test_who_lacks_a_row_or_was_not_there_is_named() -> None:
    found = suite(row("higher", arm("evloop", 10), arm("libuv", 5)))
    found["rows"][0]["lacking"] = {"rloop": "rloop lacks it", "tokio": "failed: hangs"}
    found["absent"] = {"zuvloop": "no such module"}
    page = render.render([found])
    assert "- the posts.1 row: not measured, rloop lacks it." in page
    assert "- the posts.1 row: not measured, tokio: failed: hangs." in page
    assert "Not there: zuvloop (no such module)." in page


def test_a_client_that_was_the_bottleneck_is_named() -> None:
    busy = arm("libuv", 5)
    busy["client_percent"] = 99.0
    page = render.render([suite(row("higher", arm("evloop", 10), busy))])
    assert "the client of libuv was busy 99 % of the time" in page


def test_level_is_neither_ahead_nor_behind() -> None:
    page = render.render([suite(row("lower", arm("evloop", 1), arm("libuv", 1)))])
    assert "| 1.00x | level |" in line_of(page, "| the posts.1 row")
    assert "Ahead of the best peer in 0 of 1 rows, level in 1." in page
