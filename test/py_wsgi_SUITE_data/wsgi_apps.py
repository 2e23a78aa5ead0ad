"""WSGI apps for the tests, good and bad."""

import asyncio
import sys
import threading

closed = []


def show(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("x-a", "1"), ("x-a", "2")])
    shown = {key: value for key, value in environ.items() if key not in ("wsgi.errors", "wsgi.input")}
    return [repr(sorted(shown.items())).encode()]


def echo(environ, start_response):
    body = environ["wsgi.input"].read()
    start_response("201 Made", [])
    yield environ["REQUEST_METHOD"].encode()
    yield b" "
    yield body


def length(environ, start_response):
    start_response("200 OK", [])
    return [environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))]


def writes(environ, start_response):
    write = start_response("200 OK", [])
    write(b"a")
    write(b"b")
    return [b"c"]


class Closes:
    def __init__(self, pieces):
        self.pieces = pieces

    def __iter__(self):
        for piece in self.pieces:
            if piece is None:
                raise LookupError("in the middle")
            yield piece

    def close(self):
        closed.append("closed")


def closes(environ, start_response):
    start_response("200 OK", [])
    return Closes([b"x"])


def breaks(environ, start_response):
    start_response("200 OK", [])
    return Closes([b"x", None])


def recovers(environ, start_response):
    start_response("200 OK", [])
    try:
        raise LookupError("early")
    except LookupError:
        start_response("500 Sorry", [("x-b", "1")], sys.exc_info())
    return [b"sorry"]


def is_on_no_loop(environ, start_response):
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        start_response("200 OK", [])
        return [b"none"]
    raise AssertionError("a loop runs here")


def spins(environ, start_response):
    while True:
        pass


both = threading.Barrier(2)


def meets(environ, start_response):
    both.wait(60)
    start_response("200 OK", [])
    return [b"met"]


def raises(environ, start_response):
    raise LookupError("before the start")


def never_starts(environ, start_response):
    return [b""]


def returns_nothing(environ, start_response):
    return []


def starts_twice(environ, start_response):
    start_response("200 OK", [])
    start_response("200 OK", [])
    return []


def bad_status(environ, start_response):
    start_response("OK", [])
    return []


def bad_header(environ, start_response):
    start_response("200 OK", [("a", "b\r\nc: d")])
    return []


def bytes_header(environ, start_response):
    start_response("200 OK", [(b"a", b"b")])
    return []


def text(environ, start_response):
    start_response("200 OK", [])
    return ["text"]


def number(environ, start_response):
    start_response("200 OK", [])
    return 7


not_callable = 7
