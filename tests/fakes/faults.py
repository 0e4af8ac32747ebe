"""How the calls of one client of the fake cluster fail, and what metadata they see late."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeVar

Call = Literal[
    "describe_cluster",
    "describe_partitions",
    "list_reassignments",
    "alter_reassignments",
    "create_partitions",
    "describe_configs",
    "alter_configs",
    "describe_log_dirs",
    "end_offsets",
    "produce_latencies",
    "committed_offsets",
    "elect_preferred_leaders",
]

CONTROLLER_CALLS: frozenset[Call] = frozenset(
    {
        "list_reassignments",
        "alter_reassignments",
        "create_partitions",
        "alter_configs",
        "elect_preferred_leaders",
    }
)
"""Calls that brokers pass on to the controller; the others they answer themselves."""

_Item = TypeVar("_Item")


@dataclass(slots=True)
class Fault:
    """The next ``times`` calls raise ``error`` after ``applied`` items took effect; None: after all."""

    call: Call
    error: BaseException
    applied: int | None
    times: int


@dataclass(frozen=True, slots=True)
class Items:
    """How many items of a request take effect before its fault; None: all."""

    limit: int | None

    def take(self, items: Collection[_Item]) -> list[_Item]:
        return list(items)[: self.limit]


class Faults:
    """The faults that wait for their call, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []

    def add(self, call: Call, error: BaseException, *, applied: int | None, times: int) -> None:
        """Let the next calls fail; none with 0 ``times``."""
        if times > 0:
            self._waiting.append(Fault(call, error, applied, times))

    def next_of(self, call: Call) -> Fault | None:
        """Take the fault that meets this call, if one does."""
        for fault in self._waiting:
            if fault.call == call:
                fault.times -= 1
                if fault.times == 0:
                    self._waiting.remove(fault)
                return fault
        return None
