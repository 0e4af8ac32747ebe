"""What other clients do to the cluster: another operator, another tool, the owners of topics."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.fakes.operators import CruiseControl, OperatorError, ReassignPartitions
from tests.simulation.actions import ADDED, action, number, one_of, pick
from tests.simulation.controller_state import FOLLOWER_RATE, LEADER_RATE
from tests.simulation.ledger import TOPICS_OWNER
from tests.simulation.people import FLAG

from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.play import Play

LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@action("tools", 2, partition=number, brokers=number, dead=one_of(False, False, False, True))
def another_moves(play: Play, partition: int = 0, brokers: int = 0, dead: bool = False) -> str | None:
    """Another client moves a partition, perhaps to a broker that is dead: such a move does not end."""
    chosen = pick(sorted(play.state.partitions), partition)
    if chosen is None:
        return None
    seen, live = play.state.partitions[chosen], sorted(play.world.cluster._controller.registered if dead else play.live)
    size = max(1, len(seen.replicas) - len(seen.adding))
    if len(live) < size:
        return None
    target = tuple(live[(brokers + n) % len(live)] for n in range(size))
    return play.other(
        "another operator",
        f"{chosen} to {list(target)}",
        lambda: play.elsewhere.alter_reassignments({chosen: target}, allow_replication_factor_change=True),
    )


@action("tools", 2, partition=number)
def another_cancels(play: Play, partition: int = 0) -> str | None:
    """Another client cancels a move in flight, as Cruise Control does when it starts."""
    chosen = pick(sorted(p for p, s in play.state.partitions.items() if s.in_flight), partition)
    if chosen is None:
        return None
    return play.other(
        "Cruise Control", f"the move of {chosen}", lambda: play.elsewhere.alter_reassignments({chosen: None})
    )


@action("tools", 2)
def another_verifies(play: Play) -> str | None:
    """Another operator's ``--verify`` deletes every rate, and the lists of the topics of his file (F5)."""
    brokers = sorted({r.name for r, _ in play.state.configs if r.kind == "broker"})
    changes = [
        ConfigChange(ConfigResource.broker(int(b)), key, ConfigOperation.DELETE)
        for b in brokers
        for key in (LEADER_RATE, FOLLOWER_RATE)
        if int(b) in play.live
    ]
    if not changes:
        return None
    return play.other(
        "kafka-reassign-partitions --verify",
        f"rates of brokers {', '.join(brokers)}",
        lambda: play.elsewhere.alter_configs(changes),
    )


@action("tools", 1.5, topic=number)
def another_clears_lists(play: Play, topic: int = 0) -> str | None:
    """Another tool deletes the lists of throttled replicas of a topic."""
    chosen = pick(sorted({r.name for r, _ in play.state.configs if r.kind == "topic"}), topic)
    if chosen is None:
        return None
    changes = [ConfigChange(ConfigResource.topic(chosen), key, ConfigOperation.DELETE) for key in LISTS]
    return play.other("another tool", f"lists of {chosen}", lambda: play.elsewhere.alter_configs(changes))


@action(
    "tools", 2, broker=number, rate=one_of(500_000, 1_500_000, 40_000_000), side=one_of("both", "follower", "leader")
)
def another_sets_rate(play: Play, broker: int = 0, rate: int = 1_500_000, side: str = "both") -> str | None:
    """Another operator sets the rates of a broker."""
    chosen = pick(sorted(play.live), broker)
    if chosen is None:
        return None
    keys = [k for k in (LEADER_RATE, FOLLOWER_RATE) if side in (k.split(".")[0], "both")]
    changes = [ConfigChange(ConfigResource.broker(chosen), k, ConfigOperation.SET, str(rate)) for k in keys]
    return play.other(
        "another operator", f"{side} rate of broker {chosen} to {rate}", lambda: play.elsewhere.alter_configs(changes)
    )


@action("tools", 1, topic=number, entry=number)
def another_lists(play: Play, topic: int = 0, entry: int = 0) -> str | None:
    """Another tool adds an entry to a topic's lists."""
    chosen = pick(sorted({p.topic for p in play.state.partitions}), topic)
    if chosen is None:
        return None
    value = f"0:{1 + entry}"
    changes = [ConfigChange(ConfigResource.topic(chosen), key, ConfigOperation.APPEND, value) for key in LISTS]
    return play.other(
        "another tool", f"{value} to the lists of {chosen}", lambda: play.elsewhere.alter_configs(changes)
    )


@action(
    "tools",
    2,
    command=one_of("verify", "cancel", "execute"),
    partition=number,
    brokers=number,
    rate=one_of(None, 700_000, 30_000_000),
)
def another_runs_kafkas_tool(
    play: Play, command: str = "verify", partition: int = 0, brokers: int = 0, rate: int | None = None
) -> str | None:
    """Another operator runs kafka-reassign-partitions with a file of one partition, whatever is in flight."""
    chosen = pick(sorted(play.state.partitions), partition)
    live = sorted(play.live)
    if chosen is None or not live:
        return None
    size = len(play.state.partitions[chosen].replicas) - len(play.state.partitions[chosen].adding)
    targets = {chosen: tuple(live[(brokers + n) % len(live)] for n in range(min(max(1, size), len(live))))}
    tool = ReassignPartitions(play.elsewhere)

    def run() -> None:
        with suppress(OperatorError):
            if command == "execute":
                tool.execute(targets, throttle=rate, additional=True)
            else:
                (tool.verify if command == "verify" else tool.cancel)(targets)

    return play.other(f"kafka-reassign-partitions --{command}", f"{chosen} to {list(targets[chosen])}", run)


@action("tools", 1, partition=number, brokers=number, rate=one_of(None, 2_000_000), cancels=FLAG)
def cruise_control_moves(
    play: Play, partition: int = 0, brokers: int = 0, rate: int | None = None, cancels: bool = False
) -> str | None:
    """Let Cruise Control move a partition under a throttle of its own, and take that throttle away a minute later."""
    chosen = pick(sorted(play.state.partitions), partition)
    live = sorted(play.live)
    if chosen is None or not live:
        return None
    replicas = play.state.partitions[chosen].replicas
    target = tuple(live[(brokers + n) % len(live)] for n in range(min(len(replicas), len(live))))
    other = CruiseControl(play.elsewhere)

    def end() -> None:
        play.other("Cruise Control", "the end", lambda: other.remove_throttle({chosen: {*replicas, *target}}))

    if rate is not None:
        play.for_a_while(60.0, end)
    return play.other(
        "Cruise Control",
        f"{chosen} to {list(target)}",
        lambda: other.start({chosen: target}, throttle=rate, stops_others=cancels),
    )


@action("tools", 3, among=ADDED, partition=number, broker=number, first=FLAG, at_once=FLAG)
def another_adds_a_replica(
    play: Play, partition: int = 0, broker: int = 0, first: bool = False, at_once: bool = False
) -> str | None:
    """Another client gives a partition one more replica, perhaps so small that it is in sync at once."""
    chosen = pick(sorted(play.state.partitions), partition)
    if chosen is None:
        return None
    seen = play.state.partitions[chosen]
    stays = tuple(b for b in seen.replicas if b not in seen.adding)
    more = pick(sorted(play.live - {*seen.replicas}), broker)
    if more is None:
        return None
    target = (more, *stays) if first else (*stays, more)

    def add() -> None:
        play.elsewhere.alter_reassignments({chosen: target}, allow_replication_factor_change=True)
        if at_once and play.live.issuperset(target):
            play.cluster.catch_up(chosen)

    return play.other("another operator", f"{chosen} to {list(target)}" + (" at once" if at_once else ""), add)


@action("tools", 1, among=ADDED, topic=number, first=number)
def topic_made_larger(play: Play, topic: int = 0, first: int = 0) -> str | None:
    """A topic is deleted and made again at once, with one replica more of each partition, on any brokers."""
    chosen = pick(sorted({p.topic for p in play.state.partitions}), topic)
    if chosen is None or len({p.topic for p in play.state.partitions}) == 1:
        return None
    before = [s for p, s in sorted(play.state.partitions.items()) if p.topic == chosen]
    size = len(before[0].replicas) - len(before[0].adding) + 1
    if len(play.live) < size:
        return None
    with play.ledger.another(TOPICS_OWNER):  # one change: the partitions have other replicas after it
        play.cluster.delete_topic(chosen)
        _make_topic(play, chosen, partitions=len(before), replicas=size, first=first)
    play.deleted_topics.add(chosen)
    return f"{chosen} with {size} replicas"


@action("tools", 1, topic=number, again=FLAG, later=one_of(0.0, 0.0, 45.0), fewer=one_of(False, False, True))
def topic_deleted(
    play: Play, topic: int = 0, again: bool = False, later: float = 0.0, fewer: bool = False
) -> str | None:
    """A topic is deleted, and perhaps made again, at once or later, with as many partitions or fewer."""
    chosen = pick(sorted({p.topic for p in play.state.partitions}), topic)
    if chosen is None or len({p.topic for p in play.state.partitions}) == 1:
        return None
    replicas = [s.replicas for p, s in sorted(play.state.partitions.items()) if p.topic == chosen]
    count = 1 if fewer else len(replicas)

    def make() -> None:
        size = min(len(replicas[0]), len(play.live))
        if size and not any(p.topic == chosen for p in play.state.partitions):
            _make_topic(play, chosen, partitions=count, replicas=size)

    with play.ledger.another(TOPICS_OWNER):
        play.cluster.delete_topic(chosen)
    play.deleted_topics.add(chosen)
    if again and later:
        play.for_a_while(later, make)
    elif again:
        make()
    return chosen + (f" (made again {later:g} s later)" if again else "")


def _make_topic(play: Play, topic: str, *, partitions: int, replicas: int, first: int = 0) -> None:
    live = sorted(play.live)
    made = [tuple(live[(first + n + k) % len(live)] for k in range(replicas)) for n in range(partitions)]
    with play.ledger.another(TOPICS_OWNER):
        new = play.cluster.create_topic(topic, made, size_bytes=1_000_000, messages=100)
    play.touched |= dict.fromkeys(new, play.world.time.now)


@action("tools", 1, topic=number)
def topic_grown(play: Play, topic: int = 0) -> str | None:
    """A topic gets a partition more, on the brokers of its first one, unless the controller refuses that."""
    chosen = pick(sorted({p.topic for p in play.state.partitions}), topic)
    if chosen is None:
        return None
    first = play.state.partitions[TopicPartition(chosen, 0)]
    replicas = tuple(b for b in first.replicas if b not in first.removing)
    new = TopicPartition(chosen, sum(p.topic == chosen for p in play.state.partitions))
    play.other("the topic's owner", chosen, lambda: play.elsewhere.create_partitions(chosen, {new.partition: replicas}))
    return chosen if new in play.state.partitions else None


@action("tools", 0.5, value=one_of(1, 2))
def min_isr_changed(play: Play, value: int = 1) -> str | None:
    """min.insync.replicas of a topic is changed."""
    chosen = pick(sorted({p.topic for p in play.state.partitions}), 0)
    if chosen is None:
        return None
    change = ConfigChange(ConfigResource.topic(chosen), "min.insync.replicas", ConfigOperation.SET, str(value))
    return play.other("the topic's owner", json.dumps({chosen: value}), lambda: play.elsewhere.alter_configs([change]))
