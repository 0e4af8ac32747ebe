"""One simulated world: time, a cluster, a disk, and one or two Airflows."""

from __future__ import annotations

import random
from datetime import datetime
from math import ceil, inf
from typing import Any, Literal

from tests.simulation import seam
from tests.simulation.activities import Activity, after_call, before_call, current
from tests.simulation.airflow import SimAirflow
from tests.simulation.caches import forget_batches
from tests.simulation.clock import START, VirtualTime
from tests.simulation.disk import Kind, SimDisk
from tests.simulation.files import use
from tests.simulation.ledger import Ledger
from tests.simulation.moments import seconds_to_moment
from tests.simulation.tables import SNAPSHOTS
from tests.simulation.truth import Truth

from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.model import ConfigResource

LONGEST_PAUSE = 3600.0
"""Seconds between two looks of a trigger while nothing happens."""

PATIENCE = 10.0
"""Seconds that a task looks by itself before it defers, where it has any patience."""

EVERY_LOOK_UNTIL = 7200.0
"""Seconds of virtual time."""

Looks = Literal["every", "few"]
"""Which looks of waiting tasks are simulated: every one, or those that can see a change and a few of the others."""

SECONDS_OF_REST = 20 * 24 * 3600.0


class WatchedDisk(SimDisk):
    """A disk whose calls are places where faults may strike; ``looked_at`` takes the paths of reads that are no calls."""

    looked_at: set[str] | None = None

    def _begin(self, path: str, *, writes: bool = False) -> None:
        if self.is_watched:
            if not writes:
                current().before("read", path, writes=False)
        elif self.looked_at is not None:
            self.looked_at.add(path)
        super()._begin(path, writes=writes)

    def _begin_change(self, path: str) -> None:
        before_call("write", path, writes=True)
        super()._begin_change(path)

    def _end_change(self, path: str) -> None:
        super()._end_change(path)
        after_call()


def _acting_for() -> tuple[str, str] | None:
    """Return the Airflow and the reassignment whose batch is at work."""
    ti = getattr(current(), "ti", None)
    if ti is None or "batch" not in ti.run.conf:
        return None
    return current().airflow.name, str(ti.run.conf["reassignment_id"])  # type: ignore[attr-defined]


class World:
    """Everything that a script acts on.

    Args:
        seed: of everything random.
        cluster: the simulated cluster.
        disk: the kind of the record store.
        looks: how many of the looks of waiting tasks are simulated.
        start: the first moment.
    """

    def __init__(
        self, seed: int, cluster: Any, *, disk: Kind = "objects", looks: Looks = "every", start: datetime = START
    ) -> None:
        seam.install()
        self.seed = seed
        self.looks = looks
        self.rng = random.Random(seed)
        self.planner_rng = random.Random(seed + 1)
        self.time = VirtualTime(start)
        self.cluster = cluster
        self.disk = WatchedDisk(disk, now=lambda: self.time.now, sleep=self.time.sleep)
        self.root = use(self.disk)
        SNAPSHOTS.clear()
        forget_batches()
        self.airflow = SimAirflow(self)
        self.airflows = [self.airflow]
        self.truth = Truth(self.disk, self.root, cluster.describe_cluster().cluster_id)
        self.ledger = Ledger(
            cluster,
            now=lambda: self.time.now,
            owner=self.truth.last_owner,
            limit=self.truth.limit,
            targets=self.truth.targets,
            found=self.truth.found,
            noted=self.truth.begun,
            may_be_asked=self.truth.last_asked,
            settled=lambda: {p for each in self.truth.reassignments() for p in self.truth.settled(each)},
            may_touch_foreign=self._may_touch_foreign,
            actor=lambda: current().name,
            acting_for=_acting_for,
            record_changes=lambda: self.disk.changes,
            looks_like_ours=self.truth.looks_like_ours,
        )
        self.time.after_event = self.ledger.observe
        self.main_run: Any = None
        self.is_at_rest = False
        self.time.on_move.append(self._move)
        seam.PRESENT.world = self

    def _move(self, seconds: float) -> None:
        self.disk.time_passes()
        advance = getattr(self.cluster, "advance", None)
        if advance is not None:
            advance(seconds)
        elif seconds > 1:
            self.cluster.catch_up_all()

    def _may_touch_foreign(self) -> bool:
        """Whether the code at work was asked to cancel or to supersede others' moves."""
        ti = getattr(current(), "ti", None)
        if ti is None:
            return True
        conf = ti.run.conf
        request = self.truth.request(conf.get("reassignment_id") or ti.run.run_id)
        return bool(conf.get("foreign") or conf.get("supersede") or (request is not None and request.supersede))

    def is_quiet(self) -> bool:
        """Whether nothing is being copied, so that a trigger that looks again sees nothing new."""
        copying = getattr(self.cluster, "copying", None)
        return copying is None or not copying()

    def seconds_to_window(self) -> float:
        """Return how long it is until a window of a run may open or close; infinity where no run has any."""
        asked = {
            (tuple(run.conf["windows"]), str(run.conf.get("time_zone", "UTC")))
            for airflow in self.airflows
            for run in (*airflow.runs.values(), *airflow.deleted)  # its batches may go on without it
            if run.conf.get("windows")
        }
        return min((seconds_to_moment(*each, self.time.now) for each in asked), default=inf)

    def longest_pause(self, asked: float, last: float) -> float:
        """Return how long something that looked in vain may sleep, after a pause of so many seconds before.

        Where every look is simulated, as long as it asks for; longer each time where few are, while nothing moves, and
        once ``EVERY_LOOK_UNTIL`` is over: a copy that takes days would be looked at thousands of times.
        """
        if self.looks == "few":
            return min(max(4 * last, asked), LONGEST_PAUSE)
        is_long = self.time.seconds > EVERY_LOOK_UNTIL
        return min(max(2 * last, asked), LONGEST_PAUSE) if is_long or self.is_quiet() else 0.0

    def poll(self, asked: float, longest: float, *, by: datetime | None = None) -> None:
        """Let something that looked in vain sleep: for the time it asks for, or longer while a look would see no change.

        It looks at a time at which it would look anyway, and never later than the first one after something happened,
        or after the moment ``by``.
        """
        if longest <= asked:
            self.time.poll(asked, asked)
            return
        coming = min(self.time.seconds_to_next(), self.cluster.seconds_until_next_event(), self.seconds_to_window())
        if by is not None:
            coming = min(coming, (by - self.time.now).total_seconds())
        polls = 1 if coming <= asked else ceil(round(coming / asked, 6)) if coming < longest else inf
        self.time.poll(asked, min(longest, polls * asked))

    def wait_in_task(self, at_work: Activity, asked: float) -> None:
        """Let a task that looks by itself before it defers sleep until its next look."""
        now = self.time.seconds
        if at_work.patient_until <= now:
            at_work.patient_until = now + PATIENCE
        self.poll(asked, at_work.patient_until - now if self.looks == "few" else 0.0)

    def throttles(self) -> dict[Any, dict[str, str]]:
        """Return the throttle configs that are set now, by resource."""
        topics = {p.topic for p in self.cluster.describe_partitions()}
        live = self.cluster.describe_cluster().live_brokers
        resources = [*map(ConfigResource.broker, sorted(live)), *map(ConfigResource.topic, sorted(topics))]
        found = self.cluster.describe_configs(resources, THROTTLE_KEYS)
        set_now = {r: {k: v.value for k, v in values.items() if v.value} for r, values in found.items()}
        return {r: values for r, values in set_now.items() if values}

    def lock_owner(self) -> str | None:
        """Return the reassignment that has the lock of the cluster."""
        owner = seam.record_store().lock_owner(self.cluster.describe_cluster().cluster_id)
        return None if owner is None else owner.reassignment_id

    def second_airflow(self) -> SimAirflow:
        """Start another Airflow on the same record and cluster."""
        other = SimAirflow(self, f"airflow{len(self.airflows) + 1}")
        self.airflows.append(other)
        return other

    def run_until_idle(self, most_seconds: float = SECONDS_OF_REST) -> bool:
        """Let time pass until no run is at work; return whether that was reached."""
        end = self.time.seconds + most_seconds
        while not all(a.is_idle for a in self.airflows):
            if self.time.seconds >= end or not self.time.has_events():
                return False
            self.time.advance_to_next()
        return True
