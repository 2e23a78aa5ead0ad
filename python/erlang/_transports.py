"""Owns which class serves which kind of transport: the stdlib's own, on our readers and writers."""

from ._stdlib import StdlibLoop


class Transports(StdlibLoop):
    """The hooks that asyncio's loops make transports with; each can be given another class on its own.

    `_make_socket_transport`, `_make_ssl_transport`, `_make_datagram_transport`, `_make_read_pipe_transport`
    and `_make_write_pipe_transport` are inherited: the stdlib's transports ask nothing of a loop but
    `_add_reader`, `_remove_writer` and kin.
    """
