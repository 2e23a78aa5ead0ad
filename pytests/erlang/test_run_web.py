"""`make run-web`: the example site with FastAPI, served from inside the VM."""

import json
import os
import re
import signal
import subprocess
import urllib.request
from pathlib import Path

from conftest import ROOT, environment


def test_the_example_site_is_served(application: Path) -> None:
    command = [ROOT / "tools/run_web.sh"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment() | {"PORT": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as server:
        try:
            assert server.stdout is not None
            urls = (re.search(r"serving at (http://\S+)", line) for line in server.stdout)
            check(next(found[1] for found in urls if found))
        finally:
            os.killpg(server.pid, signal.SIGKILL)


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
