"""Owns child processes: started by the stdlib's transport, watched by pidfd, so SIGCHLD stays the user's.

Linux only, as the loop is. No child watcher and no policy is involved, so it works on the loop of any thread.
"""

import os
import threading
from asyncio import unix_events
from asyncio.log import logger
from typing import Any

from ._stdlib import StdlibLoop

_Transport: Any = unix_events._UnixSubprocessTransport  # type: ignore[attr-defined]


class Subprocesses(StdlibLoop):
    """The part of the loop that starts child processes and waits for their end."""

    async def _make_subprocess_transport(
        self,
        protocol: Any,
        args: Any,
        shell: Any,
        stdin: Any,
        stdout: Any,
        stderr: Any,
        bufsize: Any,
        extra: Any = None,
        **kwargs: Any,
    ) -> Any:
        waiter = self.create_future()
        transport = _Transport(
            self, protocol, args, shell, stdin, stdout, stderr, bufsize, waiter=waiter, extra=extra, **kwargs
        )
        self._watch_child(transport.get_pid(), transport)
        try:
            await waiter
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException:
            transport.close()
            await transport._wait()
            raise
        return transport

    def _watch_child(self, pid: int, transport: Any) -> None:
        if not self._watch_pid(pid, transport):
            # A kernel before 5.3, or a sandbox that forbids it: a thread waits in its place.
            threading.Thread(
                target=self._wait_for_child, args=(pid, transport), name=f"waitpid-{pid}", daemon=True
            ).start()

    def _wait_for_child(self, pid: int, transport: Any) -> None:
        code = _exit_code(pid)
        try:
            self.call_soon_threadsafe(transport._process_exited, code)
        except RuntimeError:
            logger.warning("The loop was closed before child process pid %d ended with %d", pid, code)


def _exit_code(pid: int) -> int:
    """What a child that has ended, or is about to, ended with."""
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return lost_status(pid)
    try:
        return os.waitstatus_to_exitcode(status)
    except ValueError:
        return status


def lost_status(pid: int) -> int:
    """What a child is said to have ended with that somebody else reaped: as asyncio says."""
    logger.warning("child process pid %d exit status already read: will report returncode 255", pid)
    return 255
