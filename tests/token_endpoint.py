"""A token endpoint on this machine, as OAUTHBEARER with method=oidc asks one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

Reply = tuple[int, object]


class Endpoint:
    """A token endpoint; ``reply`` is its answer, ``asked`` the requests it got: header of authorisation, and body."""

    def __init__(self) -> None:
        self.reply: Reply = (200, {"access_token": "token-1", "expires_in": 3600})
        self.asked: list[tuple[str | None, str]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.asked.append((self.headers["Authorization"], body))
                status, content = endpoint.reply
                self.send_response(status)
                self.send_header("Content-Type", "application/json")  # librdkafka takes no other
                self.end_headers()
                self.wfile.write(content if isinstance(content, bytes) else json.dumps(content).encode())

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"


@contextmanager
def serving(endpoint: Endpoint) -> Iterator[Endpoint]:
    """Let an endpoint answer from a thread of its own."""
    threading.Thread(target=endpoint.server.serve_forever, daemon=True).start()
    try:
        yield endpoint
    finally:
        endpoint.server.shutdown()
        endpoint.server.server_close()
