"""What a person corrects at the cluster when an error asks for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource

if TYPE_CHECKING:
    from tests.simulation.play import Play

_ADD = re.compile(r"start or add (\d+) brokers")
_RATE = re.compile(r"(leader|follower)\.replication\.throttled\.rate of broker (\d+)")
_RAISED = "60000000"
"""Bytes per second: more than producers of this world write."""

_LOWER = re.compile(r"topic (\S+) from \d+ to (\d+)")


def correct(play: Play, what: str) -> bool:
    """Carry out a correction; return False when it is none that a person can carry out at the cluster."""
    if "lower min.insync.replicas (" in what:
        for topic, least in _LOWER.findall(what):
            _set(play, topic, "min.insync.replicas", least)
        return True
    if "--election-type UNCLEAN" in what:
        _elect_unclean(play, what)
        return True
    if found := _ADD.search(what):
        known = play.elsewhere.describe_cluster().brokers
        for number in range(int(found.group(1))):
            play.cluster.add_broker(max(known) + 1 + number, "abc"[number % 3])
        return True
    if "another client has set" in what:
        for side, broker in _RATE.findall(what):
            _raise(play, side, int(broker))
        return True
    if what.startswith("unpause "):
        play.airflow.pause(what.split()[1], paused=False)
        return True
    if what.startswith("look at the log of broker"):  # there is nothing to be seen: its log dirs are well
        return True
    if what.startswith("decide where "):  # they stay where they are
        return True
    # Partitions of this world are placed by name: a cordon changes nothing.
    return what.startswith("cordon the log dirs")


def _elect_unclean(play: Play, what: str) -> None:
    controller = play.cluster._controller
    for partition, state in sorted(controller.partitions.items()):
        if state.leader is None and re.search(rf"\b{re.escape(str(partition))}\b", what):
            _set(play, partition.topic, "unclean.leader.election.enable", "true")
            controller.change(state)
            _set(play, partition.topic, "unclean.leader.election.enable", "false")


def _raise(play: Play, side: str, broker: int) -> None:
    key = f"{side}.replication.throttled.rate"
    change = ConfigChange(ConfigResource.broker(broker), key, ConfigOperation.SET, _RAISED)
    play.other("another operator", f"{key} of broker {broker}", lambda: play.elsewhere.alter_configs([change]))


def _set(play: Play, topic: str, key: str, value: str) -> None:
    change = ConfigChange(ConfigResource.topic(topic), key, ConfigOperation.SET, value)
    play.other("the topic's owner", f"{key} of {topic} to {value}", lambda: play.elsewhere.alter_configs([change]))
