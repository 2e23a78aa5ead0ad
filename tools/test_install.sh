#!/usr/bin/env bash
# Owns the proof that the package installs as users install it: pip with maturin into a fresh environment, and then the
# import, the doctor, and a web server on the loop that answers one request. Nothing of the checkout is on the path.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
{ read -r build; read -r _; read -r program; read -r _; } < <("${PYTHON:-python3}" tools/interpreter.py)
venv=$root/$build/installed
passed=0 failed=0

check() {
    local name=$1
    shift
    if "$@"; then passed=$((passed + 1)) && echo "ok      $name"; else failed=$((failed + 1)) && echo "failed  $name"; fi
}

install() {
    rm -rf "$venv"
    "$program" -m venv "$venv"
    CARGO_TARGET_DIR=$root/$build/wheel "$venv/bin/pip" --disable-pip-version-check --quiet install "$root" \
        uvicorn=="$(sed -n 's/^uvicorn==//p' tools/requirements-test.txt)"
}

imports() {
    "$venv/bin/python" -c "
import erlang, erlang_asyncio, erlang_loop, pathlib, sys
assert pathlib.Path(erlang.__file__).is_relative_to(sys.prefix), erlang.__file__
assert pathlib.Path(erlang.__file__).with_name('py.typed').exists()
async def main(): return await erlang.sleep(0.001, 'ran')
assert erlang.run(main()) == 'ran'"
}

serves() {
    cat >app.py <<'END'
import asyncio
async def app(scope, receive, send):
    assert scope["type"] == "http"
    body = type(asyncio.get_running_loop()).__name__.encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
END
    local answer server status=0
    rm -f socket
    "$venv/bin/uvicorn" --loop erlang:new_event_loop --lifespan off --log-level warning --uds socket app:app &
    server=$!
    # It is ready when it accepts.
    answer=$("$venv/bin/python" -c '
import socket, sys, time
for _ in range(3000):
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect("socket")
        break
    except OSError:
        client.close()
        time.sleep(0.02)
client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
print(b"".join(iter(lambda: client.recv(65536), b"")).decode().rpartition("\r\n")[2])') || status=1
    kill -TERM "$server"
    wait "$server" || [[ $? == 143 ]] || status=1 # uvicorn ends by the signal it was sent, after an orderly shutdown
    [[ $answer == ErlangEventLoop ]] || { echo "it answered: $answer"; status=1; }
    return $status
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH
install
cd "$work"
check "import, with its types" imports
check "python -m erlang" "$venv/bin/python" -W error -m erlang
check "uvicorn --loop erlang:new_event_loop" serves
echo "$passed passed, $failed failed"
((failed == 0))
