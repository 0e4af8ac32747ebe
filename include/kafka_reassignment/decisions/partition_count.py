"""What is left to do of a planned partition count, given what the cluster shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka_reassignment.advice import PARTITION_COUNT_DAG_ID, Advice, Correct, Rerun, Trigger, WaitUntil
from kafka_reassignment.decisions.placement import replication_factor
from kafka_reassignment.errors import (
    ReassignmentError,
    ReassignmentInProgressError,
    StalePlanError,
    UnknownTopicOrPartitionError,
    error_of,
    name_some,
)
from kafka_reassignment.model import PartitionState, Refusal, Replicas, TopicPartition, View
from kafka_reassignment.text import format_brokers


def to_plan_again(asked: Mapping[str, Any]) -> Trigger:
    """Return the advice for a placement that cannot be used any more: a new run of the same request plans from what is there."""
    return Trigger(PARTITION_COUNT_DAG_ID, asked)


def to_wait_for_moves(step: str) -> tuple[Advice, ...]:
    """Return the advice for a step that finds partitions of the topic being reassigned."""
    return WaitUntil("the moves are done, or cancel them with kafka_reassignment_cancel"), Rerun(step)


def refused(refusal: Refusal, doing: str, asked: Mapping[str, Any], step: str) -> ReassignmentError:
    """Return the error of a refusal by the cluster; ``step`` is the one that asked.

    Below Kafka 2.4 the cluster adds no partitions, to whatever topic, while anything is being reassigned: another run
    of the same request would meet the same.
    """
    if refusal.code != "REASSIGNMENT_IN_PROGRESS":
        return error_of(refusal, doing, to_plan_again(asked))
    return error_of(refusal, doing, WaitUntil("nothing of the cluster is being reassigned"), Rerun(step))


def partitions_to_create(
    topic: str,
    planned: Mapping[int, Replicas],
    view: View,
    moving: Collection[TopicPartition],
    unfit: Mapping[int, str],
    asked: Mapping[str, Any],
) -> Mapping[int, Replicas]:
    """Return all planned partitions, or none when the topic has as many as are wanted. Kafka creates all of them or none.

    Safe to call again after any crash, and days later: what an earlier try created may have been moved since.

    Args:
        topic: the topic.
        planned: replicas by number of its new partitions.
        view: every partition of the topic.
        moving: those of them that are being reassigned: in flight or half-way.
        unfit: why brokers of the plan may not take replicas now.
        asked: params of a run that asks for the same, for the advice.

    Raises:
        UnknownTopicOrPartitionError: the topic is gone.
        StalePlanError: the topic has grown, was created again, has another replication factor, or a planned broker
            may not take replicas now.
        ReassignmentInProgressError: partitions of the topic are being reassigned.
    """
    present = {p.partition: s.replicas for p, s in view.partitions.items() if p.topic == topic}
    first, again = min(planned), to_plan_again(asked)
    if not present:
        raise UnknownTopicOrPartitionError(
            f"Topic {topic} does not exist, expected {first} partitions of it as when it was planned",
            Correct("create the topic with the count that is wanted"),
        )
    if len(present) < first:
        raise StalePlanError(
            f"Topic {topic} has {len(present)} partitions, expected {first} as when it was planned: it was deleted and "
            "created again. Nothing was added now",
            again,
        )
    if len(present) >= first + len(planned):
        return {}
    if len(present) > first:
        raise StalePlanError(
            f"Topic {topic} has {len(present)} partitions, expected {first} as when it was planned: another client has added "
            "some. Nothing was added now",
            again,
        )
    if moving:
        raise ReassignmentInProgressError(moving_text(topic, view, moving), *to_wait_for_moves("create_partitions"))
    factor, now = len(planned[first]), replication_factor(present)
    if factor != now:
        raise StalePlanError(
            f"Topic {topic} has {now} replicas of a partition, expected {factor} as when it was planned. Nothing was added now",
            again,
        )
    hindered = [
        f"{b}: {unfit[b]}" for b in sorted({b for replicas in planned.values() for b in replicas}) if b in unfit
    ]
    if hindered:
        raise StalePlanError(
            f"The new partitions of {topic} were planned on brokers that may not take replicas now ({name_some(hindered)}). "
            "Nothing was added now",
            again,
        )
    return planned


def not_as_wanted(
    topic: str, planned: Mapping[int, Replicas], partitions: Mapping[TopicPartition, PartitionState]
) -> list[str]:
    """Return one text for each planned partition that does not exist, has another number of replicas, no leader, or not all in sync.

    As many as the topic's other partitions have will do: its replication factor may have been changed since.
    """
    others = {p.partition: s.replicas for p, s in partitions.items() if p.topic == topic and p.partition not in planned}
    factor = replication_factor(others) if others else 0
    texts = []
    for number, replicas in sorted(planned.items()):
        state = partitions.get(TopicPartition(topic, number))
        if state is None:
            texts.append(f"{topic}-{number} is not there")
        elif len(state.replicas) not in {len(replicas), factor}:
            texts.append(_elsewhere(topic, number, state, replicas))
        elif state.leader is None:
            texts.append(f"{topic}-{number} has no leader")
        elif out := [b for b in state.replicas if b not in state.isr]:
            texts.append(f"{topic}-{number} has {format_brokers(out)} out of sync")
    return texts


def moved_since(
    topic: str, planned: Mapping[int, Replicas], partitions: Mapping[TopicPartition, PartitionState]
) -> list[str]:
    """Return one text for each planned partition that is not on its planned replicas: a reassignment may move it as any other."""
    states = {number: partitions.get(TopicPartition(topic, number)) for number in sorted(planned)}
    return [
        _elsewhere(topic, number, state, planned[number])
        for number, state in states.items()
        if state is not None and state.replicas != planned[number]
    ]


def _elsewhere(topic: str, number: int, state: PartitionState, planned: Replicas) -> str:
    return f"{topic}-{number} is on {format_brokers(state.replicas)} rather than {format_brokers(planned)}"


def moving_text(topic: str, view: View, moving: Collection[TopicPartition]) -> str:
    """Return why no partition is added while partitions of the topic are being reassigned.

    KRaft would accept it, and demand for the new partitions the number of replicas that some partition
    has at that moment, adding ones included (F28), and those that are not dropped yet.
    """
    return (
        f"{len(moving)} of {len(view.partitions)} partitions of topic {topic} are being reassigned "
        f"({name_some(sorted(moving))}), expected none: while replicas are added its replication factor is not "
        "known"
    )
