"""A broken invariant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_NAMES = re.compile(r"\[[^\]]*\]|[\w.-]*[0-9][\w.-]*")
"""Lists, and words with a number in them: partitions, brokers, runs, times."""


@dataclass(frozen=True)
class Violation:
    """Which invariant, what is not so, when it was seen, and whose code was at work.

    ``kind`` is what two violations of one cause have in common: the words without numbers and names.
    """

    invariant: str
    what: str
    at: datetime
    by: str = ""

    @property
    def kind(self) -> str:
        return f"{self.invariant}: {_NAMES.sub('#', self.what)[:90]}"

    def __str__(self) -> str:
        return f"{self.invariant} {self.what}" + (f" (by {self.by})" if self.by else "")
