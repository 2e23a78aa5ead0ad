"""`make run-web`: the example site with FastAPI, served from inside the VM."""

import json
import urllib.request
from pathlib import Path

from conftest import serving


def test_the_example_site_is_served(application: Path) -> None:
    with serving("run_web.sh") as at:
        check(f"http://{at}/")


def check(url: str) -> None:
    with urllib.request.urlopen(f"{url}hello/you", timeout=60) as answer:
        assert json.load(answer)["hello"] == "you"
    counted = []
    for _ in range(3):
        with urllib.request.urlopen(f"{url}counter", timeout=60) as answer:
            counted.append(json.load(answer)["counter"])
    assert counted == [1, 2, 3]
    with urllib.request.urlopen(f"{url}tokens", timeout=60) as answer:
        assert answer.read().count(b"data: ") == 10
