"""The log lines of the Kafka and ZooKeeper clients themselves: none by default, and never a login."""

from __future__ import annotations

import logging

_LOGINS = frozenset({"SaslAuthenticateRequest", "Auth", "SASL"})
"""Messages that have a password or a token: kafka-python's one and kazoo's two, by the names of their classes."""


class _HideLogins(logging.Filter):
    """Drops the lines that show a login.

    kafka-python and kazoo log each message that they send, SASL PLAIN's password included, as soon as somebody sets
    Airflow's ``[logging] logging_level`` to DEBUG. Bytes are dropped whole: a login may be among them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        shown = record.args if isinstance(record.args, tuple) else ()
        return not any(isinstance(arg, bytes) or type(arg).__name__ in _LOGINS for arg in shown)


def client_logger(name: str, *below: str) -> logging.Logger:
    """Return a client's logger, silent unless an operator has set its level.

    What fails is raised by this package with its reason: the client's own lines, one for each try to connect, would
    bury the task's log.

    Args:
        name: of the logger.
        below: loggers below it that show messages; a logger's filters do not see the lines of those below it.
    """
    logger = logging.getLogger(name)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
    for shown in (logger, *map(logging.getLogger, below)):
        if not any(isinstance(found, _HideLogins) for found in shown.filters):
            shown.addFilter(_HideLogins())
    return logger
