"""A mail server that keeps what it is sent: as much of SMTP as a client without a login needs (RFC 5321)."""

import socketserver
import threading
from email import message_from_string, policy
from email.message import EmailMessage
from typing import Self


class Mailbox(socketserver.ThreadingTCPServer):
    """Listens on a free port of this machine while it is open."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.mails: list[EmailMessage] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for mail in self.mails]

    def text(self, subject: str) -> str:
        """The body of the only mail with this subject."""
        (mail,) = [m for m in self.mails if m["Subject"] == subject]
        part = mail.get_body(("html", "plain"))
        assert part is not None
        return str(part.get_content())

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self.server_close()


class _Session(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self._say("220 mailbox")
        while line := self.rfile.readline():
            match line.decode().split()[:1]:
                case [word] if word.upper() == "DATA":
                    self._say("354 go on")
                    self._take()
                case [word] if word.upper() == "QUIT":
                    self._say("221 bye")
                    return
                case _:
                    self._say("250 ok")

    def _take(self) -> None:
        lines: list[str] = []
        while (line := self.rfile.readline().decode()) not in {".\r\n", ""}:
            lines.append(line.removeprefix("."))
        mail = message_from_string("".join(lines), policy=policy.default)
        assert isinstance(self.server, Mailbox)
        self.server.mails.append(mail)
        self._say("250 kept")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())
