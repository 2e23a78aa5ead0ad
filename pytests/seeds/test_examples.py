"""Every example of the two guides that needs no BEAM, run as printed in a process of its own, on our loop.

What an example leaves open (a `main` it calls, a protocol it names) stands in PREPARE; what to look at
afterwards in CHECK. Only ports and addresses are changed: ports to free ones, addresses to loopback's.
"""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import snippets
from snippets import Snippet

GUIDES = {guide: snippets.read(guide) for guide in ("first", "second")}

MAIN = """
import asyncio
async def main():
    print("main on", type(asyncio.get_running_loop()).__name__)
"""
ON_OURS = "main on ErlangEventLoop\n"

# The peer of a client example: echoes once what it gets, in a thread, with nothing of ours in it.
TCP_PEER = """
import socket, threading
listening = socket.create_server(("127.0.0.1", PORT))
def serve():
    conn, _ = listening.accept()
    conn.sendall(conn.recv(1000).upper())
    conn.close()
threading.Thread(target=serve, daemon=True).start()
"""
UDP_PEER = """
import socket, threading
bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
bound.bind(("127.0.0.1", PORT))
def serve():
    data, address = bound.recvfrom(1000)
    bound.sendto(data, address)
threading.Thread(target=serve, daemon=True).start()
"""
TCP_CLIENT = """
async def check():
    task = asyncio.create_task(main())
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
            break
        except ConnectionRefusedError:
            await asyncio.sleep(0)
    writer.write(b"hello")
    print("answer", await reader.readexactly(5))
    writer.close()
    await writer.wait_closed()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
import erlang
erlang.run(check())
"""
UDP_CLIENT = """
async def check(server):
    task = asyncio.create_task(server())
    loop = asyncio.get_running_loop()
    import socket
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.bind(("127.0.0.1", 0))
    waiting = asyncio.create_task(loop.sock_recv(sock, 100))
    while not waiting.done():
        await loop.sock_sendto(sock, b"hello", ("127.0.0.1", PORT))
        await asyncio.wait([waiting], timeout=0.05)
    print("answer", await waiting)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    sock.close()
import erlang
"""
# A fragment that awaits at its top stands in a coroutine, with a protocol of the guide's own.
FRAGMENT_CHECK = """
transport.close()
print("transport of", type(asyncio.get_running_loop()).__name__)
"""

PREPARE = {
    "Overview": MAIN,
    "Pattern 1: erlang.run() (Recommended)": "import asyncio",
    "Pattern 2: With asyncio.Runner (Python 3.11+)": MAIN,
    "Pattern 3: erlang.install() (Deprecated in Python 3.12+)": MAIN,
    "Pattern 4: Manual Loop Management": MAIN,
    "Client Connections": TCP_PEER,
    "Example: UDP Echo Server and Client / Client": UDP_PEER,
    "DatagramProtocol Callbacks": "import asyncio",
    "erlang.spawn_task(coro, *, name=None)": (
        "import asyncio\nasync def other_work(): await asyncio.sleep(0.2)"
    ),
    "Context Manager": "import asyncio\nasync def slow_operation(): await asyncio.sleep(5)",
    "Context Manager for Timeouts": "async def slow_operation(): await asyncio.sleep(0.001)",
}
CHECK = {
    "Client Connections": "import erlang\nerlang.run(main())",
    "TCP Servers": TCP_CLIENT,
    "Creating UDP Endpoints": UDP_CLIENT + "erlang.run(check(main))",
    "DatagramProtocol Callbacks": "MyDatagramProtocol().connection_lost(None); print('defined')",
    "Multi-threaded Example": "print(sorted(run_tasks('x')), t1.is_alive(), t2.is_alive())",
    "Basic Usage": "print(result)",
    "sleep(delay, result=None)": "erlang_asyncio.run(example()); print('slept')",
    "erlang.sleep(seconds)": "print(erlang.run(async_handler()), sync_handler())",
    "asyncio.wait_for(coro, timeout)": "print('in time')",
    "erlang.spawn_task(coro, *, name=None)": """
async def check():
    assert handle_request("data") == "ok"
    await handler()
erlang.run(check())
print("spawned")
""",
    "Context Manager": """
try:
    erlang_asyncio.run(asyncio.wait_for(main(), 10))
except TimeoutError:
    print("timed out")
""",
    "Context Manager for Timeouts": "print('in time')",
    "Integration with ASGI Frameworks": """
import asyncio, erlang
print(erlang.run(delay_endpoint(ms=1)))
""",
}
EXPECTED: dict[str, str | re.Pattern[str]] = {
    "Overview": ON_OURS,
    "Usage": "Done!\n",
    "Usage / 2": "",
    "Pattern 1: erlang.run() (Recommended)": "Done!\n",
    "Pattern 2: With asyncio.Runner (Python 3.11+)": ON_OURS,
    "Pattern 3: erlang.install() (Deprecated in Python 3.12+)": ON_OURS,
    "Pattern 4: Manual Loop Management": ON_OURS,
    "Execution Mode Detection": "Running with shared GIL\n",
    "Client Connections": "Received: HELLO, WORLD!\n",
    "TCP Servers": re.compile(
        r"Connection from \('127.0.0.1', \d+\)\nReceived: hello\nanswer b'hello'\n(Connection closed\n)?"
    ),
    "Creating UDP Endpoints": re.compile(
        r"Listening on .*\n(Received 'hello' from .*\n)+answer b'hello'\n(Connection closed\n)?"
    ),
    "DatagramProtocol Callbacks": "defined\n",
    "Connected vs Unconnected UDP / Unconnected UDP": "transport of ErlangEventLoop\n",
    "Connected vs Unconnected UDP / Connected UDP": "transport of ErlangEventLoop\n",
    "Broadcast UDP": "transport of ErlangEventLoop\n",
    "Example: UDP Echo Server and Client / Server": re.compile(
        r"UDP Echo Server listening on .*\n(Received 5 bytes from .*\n)+answer b'hello'\n"
    ),
    "Example: UDP Echo Server and Client / Client": re.compile(
        r"Sending: Hello UDP!\nReceived: Hello UDP! from .*\nEcho response: Hello UDP!\n"
    ),
    "Multi-threaded Example": "['x', 'x'] False False\n",
    "Basic Usage": "done\n",
    "sleep(delay, result=None)": "slept\n",
    "erlang.sleep(seconds)": "done done\n",
    "asyncio.wait_for(coro, timeout)": "in time\n",
    "erlang.spawn_task(coro, *, name=None)": "spawned\n",
    "Context Manager": "timed out\n",
    "Context Manager for Timeouts": "in time\n",
    "Integration with ASGI Frameworks": "{'slept_ms': 1}\n",
}
# These call asyncio.run by themselves, as scripts do: the policy makes it ours. The loop functions end in a
# RuntimeError, as the guide says, where no loop runs.
SCRIPTS = ("Example: UDP Echo Server and Client / Server", "Example: UDP Echo Server and Client / Client")
RAISES = {"Event Loop Functions": "RuntimeError: no running event loop"}
FRAGMENTS = (
    "Connected vs Unconnected UDP / Unconnected UDP",
    "Connected vs Unconnected UDP / Connected UDP",
    "Broadcast UDP",
)


def loopback(code: str) -> str:
    for printed, local in (
        ("192.168.1.100", "127.0.0.2"),
        ("192.168.1.101", "127.0.0.3"),
        ("255.255.255.255", "127.255.255.255"),
        ("0.0.0.0", "127.0.0.1"),
    ):
        code = code.replace(printed, local)
    return code


def whole(snippet: Snippet) -> str:
    """The program that shows the example at work."""
    code = loopback(snippet.code)
    if snippet.name in FRAGMENTS:
        protocol = GUIDES[snippet.guide]["DatagramProtocol Callbacks"].code.replace(
            "MyDatagramProtocol", "MyProtocol"
        )
        body = textwrap.indent("loop = asyncio.get_running_loop()\n" + code + FRAGMENT_CHECK, "    ")
        code = f"import asyncio, erlang\n{protocol}\nasync def main():\n{body}\nerlang.run(main())\n"
    check = CHECK.get(snippet.name, "")
    if snippet.name in SCRIPTS:
        policy = "import asyncio\nfrom erlang_loop import get_event_loop_policy as ours\n"
        policy += "asyncio.set_event_loop_policy(ours())\n"
        if snippet.name.endswith("Server"):
            code = code.replace("asyncio.run(run_server())", "")
            check = UDP_CLIENT + "asyncio.run(check(run_server))"
        code = policy + code
    text = PREPARE.get(snippet.name, "") + "\n" + code + "\n" + check
    port = snippets.free_port()
    return snippets.with_port(text, port).replace("PORT", str(port))


CASES = [snippet for guide in GUIDES.values() for snippet in guide.values()]


@pytest.mark.parametrize("snippet", CASES, ids=[snippet.id for snippet in CASES])
def test_example_runs_as_printed(snippet: Snippet, tmp_path: Path) -> None:
    program = tmp_path / "example.py"
    program.write_text(whole(snippet))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    if snippet.name in RAISES:
        assert RAISES[snippet.name] in done.stderr.splitlines(), done.stderr
        return
    assert done.returncode == 0, done.stderr
    complaints = [line for line in done.stderr.splitlines() if "Error" in line or "never" in line]
    assert complaints == []
    expected = EXPECTED.get(snippet.name, "")
    if isinstance(expected, str):
        assert done.stdout == expected
    else:
        assert expected.fullmatch(done.stdout), done.stdout


def test_all_examples_are_here() -> None:
    """As many as the guides print; one that is dropped by mistake would not be missed otherwise."""
    assert {guide: len(found) for guide, found in GUIDES.items()} == {"first": 23, "second": 27}
    named = {*PREPARE, *CHECK, *EXPECTED, *RAISES}
    assert named <= {snippet.name for snippet in CASES}
