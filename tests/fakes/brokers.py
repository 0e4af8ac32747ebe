"""How brokers of the fake cluster die and come back, and how the controller hears of it, in virtual time."""

from __future__ import annotations

from collections.abc import Callable

from tests.fakes.controller import FakeController
from tests.fakes.partition import FakePartition
from tests.fakes.replication import Replication

SESSION_SECONDS = 9.0
"""Kafka's broker.session.timeout.ms: how long a broker that is gone still counts as alive."""


class FakeBrokers:
    """The lives of the brokers; the controller's ``live`` are those that it has not fenced."""

    def __init__(self, controller: FakeController, replication: Replication, leader_rebalance_seconds: float | None):
        self._controller = controller
        self._replication = replication
        self._stopped_cleanly: set[int] = set()
        self._lives: dict[int, int] = {}
        self._dying: dict[int, int] = {}
        if leader_rebalance_seconds is not None:
            self._rebalance_every(leader_rebalance_seconds)

    def kill(self, broker: int, *, fenced_after: float | None) -> None:
        """End a broker at once; None: it is never fenced by itself."""
        self._silence(broker)
        self._stopped_cleanly.discard(broker)
        if fenced_after is not None:
            self._fence_after(broker, fenced_after)

    def pause(self, broker: int, *, fenced_after: float) -> None:
        """Stop or cut off a broker that keeps all it has; it goes on as it was if it is back before it is fenced."""
        self._silence(broker)
        self._stopped_cleanly.add(broker)
        self._fence_after(broker, fenced_after)

    def stop(self, broker: int) -> None:
        """Shut a broker down in an orderly way: its leaderships move first, which needs a controller."""
        if not self._replication.has_controller:
            self._when_controller_is_back(broker, self.stop)
            return
        self._silence(broker)
        self._stopped_cleanly.add(broker)
        self._controller.fence(broker)

    def resume(self, broker: int) -> None:
        """End a pause."""
        if broker not in self._controller.live:
            self.start(broker)
            return
        self._lives[broker] = self._lives.get(broker, 0) + 1
        self._dying.pop(broker, None)
        self._replication.silent.discard(broker)
        self._replication.changed()

    def start(self, broker: int) -> None:
        """Let a broker's process begin again: it registers, copies what it lacks, and joins the ISRs it left."""
        if not self._replication.has_controller:
            self._when_controller_is_back(broker, self.start)
            return
        if broker in self._controller.live and broker in self._replication.silent:
            self._controller.fence(broker)
        self._lives[broker] = self._lives.get(broker, 0) + 1
        self._dying.pop(broker, None)
        self._replication.silent.discard(broker)
        self._replication.changed()
        self._controller.unfence(broker, clean=broker in self._stopped_cleanly)
        self._stopped_cleanly.discard(broker)

    def flap(self, state: FakePartition, broker: int, seconds: float) -> None:
        """Let a follower fall out of the ISR; after these seconds it fetches again."""
        state.held_back.add(broker)
        self._controller.leave(state, broker)
        self._replication.changed()
        self._replication.after(seconds, lambda: state.held_back.discard(broker))

    def change_controller(self, seconds: float) -> None:
        """Let there be no controller for a while; the new one gives every broker a session of its own."""
        replication = self._replication
        replication.controller_back_at = max(replication.controller_back_at, replication.now + seconds)
        for broker in sorted(self._dying):
            self._fence_after(broker, seconds + SESSION_SECONDS)
        replication.after(seconds, replication.changed)

    def end_controller_change(self) -> None:
        """Let the new controller be there now."""
        replication = self._replication
        replication.controller_back_at = min(replication.controller_back_at, replication.now)
        replication.changed()

    def _silence(self, broker: int) -> None:
        self._lives[broker] = self._lives.get(broker, 0) + 1
        self._dying.pop(broker, None)
        self._replication.silent.add(broker)
        self._replication.changed()

    def _fence_after(self, broker: int, seconds: float) -> None:
        life = self._lives[broker] = self._lives.get(broker, 0) + 1
        self._dying[broker] = life

        def fence() -> None:
            if self._lives[broker] == life:
                del self._dying[broker]
                self._controller.fence(broker)

        if seconds <= 0:
            fence()
        else:
            self._replication.after(seconds, fence)

    def _when_controller_is_back(self, broker: int, act: Callable[[int], None]) -> None:
        life = self._lives.get(broker, 0)
        wait = self._replication.controller_back_at - self._replication.now
        self._replication.after(wait, lambda: act(broker) if self._lives.get(broker, 0) == life else None)

    def _rebalance_every(self, seconds: float) -> None:
        def rebalance() -> None:
            if self._replication.has_controller:
                for state in self._controller.partitions.values():
                    if state.leader != state.replicas[0]:
                        self._controller.change(state, preferred=True)
            self._replication.after(seconds, rebalance)

        self._replication.after(seconds, rebalance)
