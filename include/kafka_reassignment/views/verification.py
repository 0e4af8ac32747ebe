"""Whether a reassignment is complete: every partition at its target and in sync, nothing in flight, no throttle left.

As ``--verify`` of Kafka's tool, but it only reads: that one removes the throttles of every client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, LEADER_RATE, THROTTLE_KEYS, Side, partition_of
from kafka_reassignment.decisions.throttle.wanted import EVERY_REPLICA, entries_of
from kafka_reassignment.decisions.verification import verification
from kafka_reassignment.errors import InvalidRequestError, RecordError, name_some
from kafka_reassignment.model import (
    DEFAULT_OF_BROKERS,
    ConfigResource,
    ConfigSource,
    Reassignment,
    Replicas,
    TopicPartition,
)
from kafka_reassignment.plan.store import read_target
from kafka_reassignment.ports import ClusterPort, in_slices
from kafka_reassignment.record.catalogue import RecordedReassignment, find_reassignment
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps.base.added import observe_added
from kafka_reassignment.steps.base.leaving import observe_leaving
from kafka_reassignment.steps.base.moves import SLICE
from kafka_reassignment.steps.base.view import observe_twice
from kafka_reassignment.steps.throttling.restore import split_owed

SHOWN = 20
"""Partitions that are not at their target, in the text; the JSON has all."""


@dataclass(slots=True)
class Verified:
    """What was compared. ``wrong`` says of each partition why it is not complete, ``throttles`` what is left of throttles.

    ``gone`` were deleted since the plan was made, ``withdrawn`` are not moved any more: neither counts.
    ``led_by_others`` are at their target with another leader than the preferred one, which an election changes without
    a copy. ``still_hosted`` is what the brokers that a decommission empties host, whether or not the plan moves it.
    ``silent`` says why of brokers that do not tell: what they host, or, without a reassignment, which rates they have.
    ``owed_by_down`` is what is left of throttles on brokers that are down: the sweep pays it, and it is complete
    without that.
    """

    cluster_id: str
    reassignment_id: str | None
    at_target: int = 0
    gone: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    led_by_others: list[str] = field(default_factory=list)
    throttles: list[str] = field(default_factory=list)
    still_hosted: list[str] = field(default_factory=list)
    silent: dict[int, str] = field(default_factory=dict)
    owed_by_down: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether all is as it was asked for."""
        return not (self.wrong or self.throttles or self.still_hosted or self.silent)

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "cluster_id": self.cluster_id,
            "reassignment_id": self.reassignment_id,
            "complete": self.is_complete,
            "at_target": self.at_target,
            "wrong": self.wrong,
            "throttles": self.throttles,
            "owed_by_down": list(self.owed_by_down),
            "gone": self.gone,
            "withdrawn": self.withdrawn,
            "led_by_others": self.led_by_others,
            "still_hosted": self.still_hosted,
            "silent": {str(broker): why for broker, why in self.silent.items()},
        }

    def lines(self) -> Iterator[str]:
        """Describe it in words, the answer first."""
        whose = f"Reassignment {self.reassignment_id} of cluster" if self.reassignment_id else "The plan for cluster"
        answer = "is complete" if self.is_complete else "is not complete"
        of = self.at_target + len(self.wrong)
        yield f"{whose} {self.cluster_id} {answer}: {self.at_target} of {of} partitions are at their target and in sync"
        yield from list(self.wrong.values())[:SHOWN]
        if len(self.wrong) > SHOWN:
            yield f"and {len(self.wrong) - SHOWN} more partitions; --json has all"
        if self.still_hosted:
            yield f"The brokers to be emptied still host {len(self.still_hosted)} partitions: {name_some(self.still_hosted)}"
        asked = "what it hosts" if self.reassignment_id else "whether it has a rate"
        yield from (f"Broker {broker} does not tell {asked}: {why}" for broker, why in self.silent.items())
        yield from (f"Throttle left: {text}" for text in (*self.throttles, *self.owed_by_down))
        for partitions, what in (
            (self.gone, "deleted since the plan was made"),
            (self.withdrawn, "withdrawn from the reassignment"),
            (self.led_by_others, "at the target, led by another broker than the preferred one"),
        ):
            if partitions:
                yield f"{len(partitions)} {what}: {name_some(partitions)}"


def verify_reassignment(
    cluster: ClusterPort,
    store: RecordStore,
    reassignment_id: str | None = None,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Verified:
    """Compare a cluster with the plan in a record, and the throttle journal with what is still to be restored.

    Of a decommission also what its brokers host: it is complete when they are empty, whatever was withdrawn or was made
    since. Of one that is not reported yet also what was added to its topics since it was planned, as ``verify`` does.

    Args:
        cluster: the cluster.
        store: the records.
        reassignment_id: the one to compare with; by default the one that has locked the cluster.
        sleep: waits between two looks at what may only be a broker's old news.

    Raises:
        RecordError: there is no such reassignment, or it has no plan.
    """
    cluster_id = cluster.describe_cluster().cluster_id
    found = _require_reassignment(store, cluster_id, reassignment_id)
    withdrawn = found.record.withdrawn_partitions()
    verified = Verified(cluster_id, found.reassignment_id, withdrawn=sorted(withdrawn))
    moves = (m for m in read_target(found.record.plan_ref()) if str(m.partition) not in withdrawn)
    _compare(cluster, moves, verified, sleep)
    request = found.record.recorded_request().request
    if not found.record.is_reported:
        verified.wrong |= {str(p): text for p, text in observe_added(cluster, found.record, request).items()}
    leaving = observe_leaving(cluster, request, sleep=sleep)
    verified.still_hosted = [str(p) for p in sorted({*leaving.hosted, *leaving.hidden})]
    verified.silent = dict(leaving.silent)
    owed, verified.owed_by_down = split_owed(cluster, found.record)
    verified.throttles += owed
    return verified


def verify_targets(
    cluster: ClusterPort, targets: Mapping[TopicPartition, Replicas], *, sleep: Callable[[float], None] = time.sleep
) -> Verified:
    """Compare a cluster with the targets of a kafka-reassign-partitions file, whoever carries it out.

    A partition that does not exist is not complete. Throttles left are the lists that name one of its partitions and,
    while nothing at all is in flight in the cluster, every broker's rate and the default of all. A broker that does not
    answer may have one, also one that is down: it has it when it is back.

    Raises:
        InvalidRequestError: none of the partitions exists, so that the file is for another cluster.
    """
    verified = Verified(cluster.describe_cluster().cluster_id, None)
    _compare(cluster, (Reassignment(p, replicas, replicas) for p, replicas in targets.items()), verified, sleep)
    if len(verified.gone) == len(targets):
        raise InvalidRequestError(
            f"None of the partitions exists in cluster {verified.cluster_id}: {name_some(verified.gone)}",
            Correct("give the file of this cluster, or connect to the other one"),
        )
    verified.wrong |= {p: f"{p} does not exist" for p in verified.gone}
    verified.gone = []
    verified.throttles += _lists_left(cluster, targets)
    if not cluster.list_reassignments():
        _note_rates_left(cluster, verified)
    return verified


def _require_reassignment(store: RecordStore, cluster_id: str, reassignment_id: str | None) -> RecordedReassignment:
    """Return a reassignment, by default the one that has locked the cluster.

    Raises:
        RecordError: there is none.
    """
    found = find_reassignment(store, cluster_id, reassignment_id)
    if found is None:
        raise RecordError(
            f"No reassignment has locked cluster {cluster_id}, expected one, or the run id of another one",
            Correct("name it with --reassignment; 'kafka-reassignment list --json' has the run ids"),
        )
    return found


def _compare(
    cluster: ClusterPort, moves: Iterable[Reassignment], verified: Verified, sleep: Callable[[float], None]
) -> None:
    for some in in_slices(moves, SLICE):
        seen = observe_twice(
            cluster,
            [m.partition for m in some],
            lambda view, some=some: bool(verification(some, view).elsewhere),  # type: ignore[misc]
            sleep,
        )
        result = verification(some, seen)
        wrong = {**result.elsewhere, **result.not_yet}
        verified.wrong |= {str(p): text.removesuffix(".") for p, text in wrong.items()}
        verified.at_target += len([p for p in result.at_target if p not in wrong])
        verified.gone += map(str, result.gone)
        verified.led_by_others += [str(p) for p in result.wrong_leader if p not in result.leaderless]


def _lists_left(cluster: ClusterPort, partitions: Collection[TopicPartition]) -> Iterator[str]:
    numbers: dict[str, set[int]] = {}
    for p in partitions:
        numbers.setdefault(p.topic, set()).add(p.partition)
    configs = cluster.describe_configs([ConfigResource.topic(t) for t in sorted(numbers)], THROTTLE_KEYS)
    for resource, values in configs.items():
        for side in Side:
            value = values.get(side.replicas_key)
            if value is None or value.source is not ConfigSource.DYNAMIC_TOPIC:
                continue
            named = [
                e for e in entries_of(value.value) if e == EVERY_REPLICA or partition_of(e) in numbers[resource.name]
            ]
            if named:
                yield f"{resource}: {side.replicas_key} has {name_some(named)}"


def _note_rates_left(cluster: ClusterPort, verified: Verified) -> None:
    partitions = cluster.describe_partitions()
    brokers = sorted(cluster.describe_cluster().known_brokers(partitions))
    asked = [DEFAULT_OF_BROKERS, *map(ConfigResource.broker, brokers)]
    described = cluster.describe_configs(asked, THROTTLE_KEYS)
    for resource, values in described.items():
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER if resource == DEFAULT_OF_BROKERS else ConfigSource.DYNAMIC_BROKER
        for key in (LEADER_RATE, FOLLOWER_RATE):
            rate = values.get(key)
            if rate is not None and rate.source is source:
                verified.throttles.append(f"{resource}: {key} is {'hidden' if rate.value is None else rate.value}")
    verified.silent |= {b: "it did not answer" for b in brokers if ConfigResource.broker(b) not in described}
