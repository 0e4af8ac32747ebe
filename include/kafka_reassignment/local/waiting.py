"""Waiting for something that comes true by itself, with an error that says what was still missing."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka_reassignment.local.errors import LocalClusterError

_POLL_SECONDS = 0.1


def wait_until_settled(subject: str, missing: Callable[[], str | None], deadline: float, next_step: str) -> None:
    """Return once ``missing`` returns None.

    Args:
        subject: who has to settle, beginning the error's text.
        missing: looks, and tells what is expected and what is found; asked at least once.
        deadline: by ``time.monotonic``.
        next_step: what to do when it does not come true.

    Raises:
        LocalClusterError: the deadline passed.
    """
    began = time.monotonic()
    while (told := missing()) is not None:
        if time.monotonic() > deadline:
            raise LocalClusterError(
                f"{subject} is not ready after {time.monotonic() - began:.0f} s: {told}. {next_step}"
            )
        time.sleep(_POLL_SECONDS)
