"""One session with ZooKeeper by kazoo: bounded in time, with errors that say what to do.

A plain kazoo call waits for ever while disconnected, so every operation here is awaited with a timeout.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self, TypeVar

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, Permissions

from kafka_reassignment.advice import Correct
from kafka_reassignment.cluster.client_logs import client_logger
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.cluster.zookeeper.settings import ZookeeperSettings
from kafka_reassignment.errors import ClusterUnavailableError, NotAuthorizedError, ReassignmentError

CONNECT_SECONDS = 5.0
OPERATION_SECONDS = 10.0

_log = client_logger("kafka_reassignment.kazoo")

_OWN_ACL = [ACL(Permissions.ALL, Id("auth", "")), ACL(Permissions.READ, Id("world", "anyone"))]
_Result = TypeVar("_Result")

_CHANGED = (kazoo_errors.BadVersionError, kazoo_errors.NoNodeError)
_ROLLED_BACK = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
"""What a failed transaction answers for its other operations."""


@dataclass(frozen=True, slots=True)
class Znode:
    """Parsed JSON of a znode (None when it has no data or none that parses), its version, and when it was made."""

    content: Any
    version: int
    created_at: datetime | None = field(default=None, compare=False)


class ConnectionLostError(ClusterUnavailableError):
    """The connection broke during an operation: a write may have taken effect or not."""


class ZookeeperSession:
    """A session; a context manager. Paths are the brokers' own, below the chroot of the settings."""

    def __init__(self, settings: ClusterSettings, zookeeper: ZookeeperSettings) -> None:
        self._connection = settings.name
        self._zookeeper = zookeeper
        self._client = KazooClient(**_arguments(zookeeper))

    def __enter__(self) -> Self:
        try:
            with self._translate_errors("connecting"):
                self._client.start(timeout=CONNECT_SECONDS)
                # A refused password still ends in a started client: only the first answer tells.
                self._client.exists_async("/").get(timeout=CONNECT_SECONDS)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.stop()
        self._client.close()

    def read(self, path: str) -> Znode | None:
        """Return a znode, or None when it does not exist."""
        return self.read_all([path])[path]

    def read_all(self, paths: Collection[str]) -> dict[str, Znode | None]:
        """Return several znodes by path; asked for all at once."""
        pending = {path: self._client.get_async(path) for path in paths}
        return {path: self._wait(f"reading {path}", partial(_znode, p)) for path, p in pending.items()}

    def children(self, path: str) -> list[str]:
        """Return the names below a path; none when it does not exist."""
        pending = self._client.get_children_async(path)

        def names() -> list[str]:
            try:
                return sorted(pending.get(timeout=OPERATION_SECONDS))
            except kazoo_errors.NoNodeError:
                return []

        return self._wait(f"listing {path}", names)

    def create(self, path: str, content: Mapping[str, Any], *, unchanged: Mapping[str, int] | None = None) -> bool:
        """Make a persistent znode with compact JSON, while others have these versions: all of it at once, or nothing.

        False when one is there already, or one of the others has another version or is gone.

        Raises:
            ConnectionLostError: it may have been made or not.
        """
        acl = OPEN_ACL_UNSAFE if self._zookeeper.acl == "open" else _OWN_ACL
        data = json.dumps(content, separators=(",", ":")).encode()
        transaction = self._client.transaction()
        for other, version in (unchanged or {}).items():
            transaction.check(other, version)
        transaction.create(path, data, acl=acl)
        pending = transaction.commit_async()

        def created() -> bool:
            *checked, made = pending.get(timeout=OPERATION_SECONDS)
            if isinstance(made, kazoo_errors.NodeExistsError) or any(isinstance(c, _CHANGED) for c in checked):
                return False
            for failed in (*checked, made):
                if isinstance(failed, kazoo_errors.KazooException) and not isinstance(failed, _ROLLED_BACK):
                    raise failed
            return True

        return self._wait(f"creating {path}", created)

    def _wait(self, doing: str, result: Callable[[], _Result]) -> _Result:
        with self._translate_errors(doing):
            return result()

    @contextmanager
    def _translate_errors(self, doing: str) -> Iterator[None]:
        where = f"ZooKeeper {self._zookeeper} of connection '{self._connection}'"
        try:
            yield
        except (kazoo_errors.NoAuthError, kazoo_errors.AuthFailedError, kazoo_errors.SASLException) as refused:
            raise NotAuthorizedError(
                f"{where} refused {doing} ({type(refused).__name__})",
                Correct(
                    "check 'sasl.*', 'digest' and 'acl' in the connection's 'zookeeper' section: the principal must be allowed to create under /admin"
                ),
            ) from None
        except (KazooTimeoutError, kazoo_errors.KazooException) as failed:
            why = "no answer in time" if isinstance(failed, KazooTimeoutError) else type(failed).__name__
            raise ConnectionLostError(
                f"{where} failed while {doing}: {why}. Check that it is up, and 'connect' and 'tls' in the connection's "
                "'zookeeper' section: a server that wants TLS answers nothing without it, nor the other way round."
            ) from None
        except (OSError, ValueError) as failed:
            raise ReassignmentError(f"{where} failed while {doing}: {self._zookeeper.redact(failed)}.") from None


def _znode(pending: Any) -> Znode | None:  # noqa: ANN401  # kazoo publishes no types
    try:
        data, stat = pending.get(timeout=OPERATION_SECONDS)
    except kazoo_errors.NoNodeError:
        return None
    try:
        content = json.loads(data) if data else None
    except ValueError:
        content = None
    return Znode(content, stat.version, datetime.fromtimestamp(stat.created, UTC))


def _arguments(zookeeper: ZookeeperSettings) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "hosts": zookeeper.connect,
        "timeout": zookeeper.session_timeout_seconds,
        "logger": _log,
        "connection_retry": {"max_tries": 3, "max_delay": 1},
    }
    if zookeeper.tls:
        arguments |= {
            "use_ssl": True,
            "ca": zookeeper.ca_location,
            "certfile": zookeeper.certificate_location,
            "keyfile": zookeeper.key_location,
            "keyfile_password": zookeeper.key_password,
            "verify_certs": zookeeper.verify_certificate,
            "check_hostname": zookeeper.verify_hostname and zookeeper.verify_certificate,
        }
    if zookeeper.sasl_mechanism == "DIGEST-MD5":
        arguments["sasl_options"] = {
            "mechanism": "DIGEST-MD5",
            "username": zookeeper.sasl_username,
            "password": zookeeper.sasl_password,
        }
    elif zookeeper.sasl_mechanism == "GSSAPI":
        arguments["sasl_options"] = {"mechanism": "GSSAPI", "service": zookeeper.sasl_service_name}
    if zookeeper.digest:
        arguments["auth_data"] = [("digest", zookeeper.digest)]
    return arguments
