"""The programs of the web suite: every arm is a server, and a wrong response is no result."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from suites.web import SUITE
from web import site
from web.__main__ import ROWS, measured_load
from web.servers import COMMANDS, Group


@contextmanager
def answering(status: int, body: bytes) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_every_arm_is_a_server_and_every_row_a_path_of_the_app() -> None:
    assert {arm.command[-1] for case in SUITE.cases for arm in case.arms} == set(COMMANDS)
    rows = {case.params[0].removeprefix("row=") for case in SUITE.cases}
    assert {f"/{row}" for row in rows} == set(site.PATHS)
    assert rows == {*ROWS, "websocket"}


def test_right_responses_are_counted() -> None:
    with answering(200, site.PLAIN) as port:
        counted = measured_load("plain", port, 2, 1000)
    assert counted.operations > 0 and counted.rate > 0


@pytest.mark.parametrize(("status", "body"), [(200, b"Hello, World!"), (404, site.PLAIN)])
def test_a_wrong_response_ends_the_measurement(status: int, body: bytes) -> None:
    with answering(status, body) as port, pytest.raises(SystemExit, match="wrong result"):
        measured_load("plain", port, 2, 1000)


def test_the_cpu_time_is_that_of_the_whole_session() -> None:
    group = Group(os.getsid(0), 0)
    before = group.cpu_seconds()
    while group.cpu_seconds() - before < 0.05:
        pass
    assert os.getpid() in group.members()
