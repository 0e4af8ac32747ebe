"""Who is at work: each try of a task, each trigger and each person is an activity, and faults strike its calls.

The cluster and the disk of the simulation call ``before_call`` and ``after_call`` around everything that the product
asks of them. So a fault is "at the n-th call of this activity", and calls are also the places where two activities
interleave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from greenlet import getcurrent

from kafka_reassignment.errors import ClusterUnavailableError

CallFault = Literal["die_before", "die_after", "lose_answer", "pause_before", "pause_after"]


class WorkerDied(BaseException):
    """The process that did this is gone: nothing that it would still do has any effect."""


@dataclass
class Fault:
    """What happens at the n-th call.

    ``writes_only`` counts only calls that change the cluster or the record, ``on`` only those at a path of the record
    that contains it; ``met`` of these there were so far. With ``on``, the kind is one that happens before a call.
    """

    kind: CallFault
    call: int
    writes_only: bool = False
    seconds: float = 0.0
    on: str = ""
    met: int = 0


@dataclass
class Activity:
    """One try of a task, one trigger, or a person."""

    name: str
    sleep: Callable[[float], None] = lambda _seconds: None
    faults: list[Fault] = field(default_factory=list)
    calls: int = 0
    writes: int = 0
    died: bool = False
    trace: list[str] | None = None
    is_about_to_wait: bool = False
    """Whether it has looked in vain and sleeps next, until it looks again."""
    stands_still: bool = False
    """Whether a fault holds it up: it looks at nothing meanwhile."""
    patient_until: float = -1.0
    """Until when it looks by itself, in seconds of virtual time."""

    def before(self, call: str, on: str = "", *, writes: bool) -> None:
        """A call begins, on a path where it has one."""
        if self.died:
            raise WorkerDied(self.name)
        self.calls += 1
        if writes:
            self.writes += 1
        if self.trace is not None:
            self.trace.append(f"{call}{' ' if on else ''}{on}{' (write)' if writes else ''}")
        if self.faults:
            self._strike(("die_before", "pause_before"), on, writes=writes)

    def after(self, *, writes: bool) -> None:
        """A call has taken effect; its answer is on the way."""
        if self.died:
            raise WorkerDied(self.name)
        if self.faults:
            self._strike(("die_after", "pause_after", "lose_answer"), writes=writes)

    def _strike(self, kinds: tuple[str, ...], on: str = "", *, writes: bool) -> None:
        for fault in self.faults:
            if fault.kind not in kinds or fault.on not in on or (fault.writes_only and not writes):
                continue
            fault.met += 1
            number = fault.met if fault.on else self.writes if fault.writes_only else self.calls
            if fault.call != number:
                continue
            if fault.kind in ("die_before", "die_after"):
                self.died = True
                raise WorkerDied(self.name)
            if fault.kind == "lose_answer":
                raise ClusterUnavailableError("The answer was lost. Look at the cluster, then run the step again")
            self.stands_still = True
            self.sleep(fault.seconds)
            self.stands_still = False
            if self.died:
                raise WorkerDied(self.name)


_PEOPLE = Activity("people")


def current() -> Activity:
    """The activity whose code runs."""
    return getattr(getcurrent(), "activity", _PEOPLE)


def before_call(call: str, on: str = "", *, writes: bool) -> None:
    """The product asks the cluster or the disk for something."""
    current().before(call, on, writes=writes)


def after_call() -> None:
    """What was asked for, a write, has been done."""
    current().after(writes=True)
