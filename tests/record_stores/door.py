"""A door in front of a server: counts the requests that pass, and lets none pass while it is closed."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

END_OF_REQUEST_LINE = b" HTTP/1.1\r\n"


class Door:
    """Forwards connections from a port of its own to a server's port.

    While it is closed, connections are refused, and those that were open are cut: as if the server were away.

    Args:
        port: of the server, on this machine.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self.requests = 0
        self._through: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.port = 0
        self.open()

    @property
    def is_closed(self) -> bool:
        return self._listener is None

    def open(self) -> None:
        """Let connections pass, at the same port as before."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(64)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections, and cut those that are open."""
        assert self._listener is not None
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts; closing alone does not
        self._listener.close()
        self._listener = None
        for end in list(self._through):
            self._cut(end)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            self._through |= {client, server}
            for source, sink, counts in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pump, args=(source, sink, counts), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        with suppress(OSError):
            while part := source.recv(65_536):
                self.requests += part.count(END_OF_REQUEST_LINE) if counts else 0
                sink.sendall(part)
        self._cut(source)
        self._cut(sink)

    def _cut(self, end: socket.socket) -> None:
        self._through.discard(end)
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
