"""Waiting for something that comes true by itself, with an error that says what was still missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from kafka_lab.clients import controller_answers, live_brokers, under_replicated
from kafka_lab.errors import LocalClusterError
from kafka_reassignment.errors import name_some

_POLL_SECONDS = 0.1
_ANSWER_SECONDS = 2.0


def wait_until_settled(subject: str, missing: Callable[[], str | None], deadline: float, next_step: str) -> None:
    """Return once ``missing`` returns None.

    Args:
        subject: who has to settle, beginning the error's text.
        missing: looks, and returns what is expected and what is found; called at least once.
        deadline: by ``time.monotonic``.
        next_step: what to do when it does not come true.

    Raises:
        LocalClusterError: the deadline passed.
    """
    began = time.monotonic()
    while (unmet := missing()) is not None:
        if time.monotonic() > deadline:
            raise LocalClusterError(
                f"{subject} is not ready after {time.monotonic() - began:.0f} s: {unmet}. {next_step}"
            )
        time.sleep(_POLL_SECONDS)


def wait_for_brokers(addresses: Mapping[int, str], timeout_seconds: float, check: Callable[[], None]) -> None:
    """Wait until each of these brokers, asked itself, shows exactly these as registered and not fenced.

    Args:
        addresses: by broker id.
        timeout_seconds: for all together.
        check: raises when waiting longer makes no sense.
    """
    deadline = time.monotonic() + timeout_seconds
    wanted = frozenset(addresses)
    for broker, address in sorted(addresses.items()):

        def missing(address: str = address) -> str | None:
            check()
            shown = live_brokers(address, _ANSWER_SECONDS)
            return None if shown == wanted else f"expected brokers {listed(wanted)} alive, found {listed(shown)}"

        wait_until_settled(f"Broker {broker}", missing, deadline, "Look into its log, and the controller's.")


def wait_for_controller(bootstrap_servers: str, timeout_seconds: float, check: Callable[[], None]) -> None:
    """Wait until the controller takes requests; ``check`` as above."""

    def missing() -> str | None:
        check()
        answers = controller_answers(bootstrap_servers, _ANSWER_SECONDS)
        return None if answers else "expected its controller to answer, found no answer"

    deadline = time.monotonic() + timeout_seconds
    wait_until_settled("The local cluster", missing, deadline, "Look into the controller's log.")


def wait_for_isr(bootstrap_servers: str, timeout_seconds: float, topic: str | None = None) -> None:
    """Wait until every partition (of a topic, or all) has a leader and all its replicas in the ISR."""

    def missing() -> str | None:
        lagging = under_replicated(bootstrap_servers, _ANSWER_SECONDS, topic)
        found = "no answer" if lagging is None else name_some(lagging)
        return None if lagging == [] else f"expected no under-replicated partition, found {found}"

    deadline = time.monotonic() + timeout_seconds
    subject = f"Topic {topic}" if topic else "The local cluster"
    wait_until_settled(subject, missing, deadline, "Look which of the brokers are down.")


def listed(brokers: Iterable[int]) -> str:
    """Broker ids in order, for messages."""
    return ", ".join(str(b) for b in sorted(brokers)) or "none"
