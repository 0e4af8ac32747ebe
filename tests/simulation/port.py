"""The cluster as the product's code meets it: every call is a place where a fault may strike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from tests.simulation.activities import after_call, before_call, current

WRITES = frozenset({"alter_reassignments", "alter_configs", "create_partitions", "elect_preferred_leaders"})
READS = frozenset(
    {
        "describe_cluster",
        "describe_partitions",
        "list_reassignments",
        "describe_configs",
        "describe_log_dirs",
        "end_offsets",
        "produce_latencies",
        "committed_offsets",
    }
)


class SimPort:
    """The port of one connection to the simulated cluster."""

    def __init__(self, cluster: Any, ledger: Any, changed: Callable[[], object]) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._changed = changed

    def close(self) -> None:
        """See the port."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


def _write(name: str) -> Callable[..., Any]:
    def call(self: SimPort, *args: Any, **kwargs: Any) -> Any:
        before_call(name, writes=True)
        with self._ledger.ours(name, *args):
            answer = getattr(self._cluster, name)(*args, **kwargs)
        self._changed()
        after_call()
        return answer

    return call


def _read(name: str) -> Callable[..., Any]:
    def call(self: SimPort, *args: Any, **kwargs: Any) -> Any:
        at_work = current()
        at_work.before(name, writes=False)
        answer = getattr(self._cluster, name)(*args, **kwargs)
        self._ledger.saw(name, answer)
        at_work.after(writes=False)
        return answer

    return call


for _name in WRITES:
    setattr(SimPort, _name, _write(_name))
for _name in READS:
    setattr(SimPort, _name, _read(_name))
