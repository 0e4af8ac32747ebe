"""Records as a night leaves them: a reassignment at work, one that is held, and many that are over; without brokers."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from tests.steps_lab import move, write_plan
from upath import UPath

from kafka_reassignment.decisions.progress_shown import BrokerFlow, ProgressShown, ReplicaShown, SpeedPoint
from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.decisions.throttle.journal import Earlier, Journal, LowerRate, RateRecord
from kafka_reassignment.model import ConfigSource, Step
from kafka_reassignment.plan.store import read_summary, write_summary
from kafka_reassignment.plan.summary import BrokerSummary
from kafka_reassignment.record.audit import Actor, AuditEvent
from kafka_reassignment.record.models import (
    ClusterLock,
    FinishedBatch,
    ProgressNote,
    RecordedRequest,
    SubmittedBatch,
)
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.request import ReassignmentRequest
from kafka_reassignment.steps.batch import BATCH_STEPS

GB = 10**9
TOPICS = ("orders", "payments", "clicks", "shipments")
CLUSTER = "prod-eu"
AT_WORK = "decommission-broker-7"


def night(
    folder: UPath, now: datetime | None = None, *, batches: int = 24, done: int = 13, moves: int = 6
) -> RecordStore:
    """Write the records; ``AT_WORK`` copies its batch ``done + 1``, with a broker down and a replica too slow."""
    store, at = RecordStore(folder), now or datetime.now(UTC)
    _over(store, at)
    _held(store, at)
    begun = at - timedelta(minutes=16 * done + 9)
    record = begin(store, CLUSTER, AT_WORK, begun, job="decommission", brokers=[7], throttle_mb_per_second=80)
    store.acquire(CLUSTER, ClusterLock(reassignment_id=AT_WORK, since=begun, requested_by="ann"))
    plan(record, [_batch(n, moves) for n in range(1, batches + 1)], begun)
    event(record, "preflight", None, begun, "6 brokers, 412 partitions, all healthy")
    event(record, "plan", None, begun + timedelta(seconds=40), f"{batches} batches, {batches * moves} partitions")
    for number in range(1, done + 1):
        started = begun + timedelta(minutes=16 * (number - 1) + 1)
        finish(record, number, started, started + timedelta(minutes=14 + number % 3), moves)
    copying(record, done + 1, at, moves)
    return store


def begin(store: RecordStore, cluster_id: str, name: str, at: datetime, **request: object) -> Record:
    record = store.record(cluster_id, name)
    asked = ReassignmentRequest.model_validate({"job": "rebalance", "throttle_mb_per_second": 10, **request})
    record.write_request(
        RecordedRequest(cluster_id=cluster_id, reassignment_id=name, started_at=at, requested_by="ann", request=asked)
    )
    return record


def plan(record: Record, batches: list[list[Step]], at: datetime) -> None:
    frozen = write_plan(record.plan_uri, batches, frozen_at=at)
    summary = read_summary(record.plan_uri)
    loads = {1: (4.1, 4.9), 2: (4.0, 4.7), 3: (4.4, 5.0), 4: (3.9, 4.8), 5: (4.2, 4.8), 6: (4.0, 4.7), 7: (4.3, 0.0)}
    brokers = tuple(
        BrokerSummary(
            broker=b,
            rack=f"rack-{'abc'[b % 3]}",
            alive=True,
            share_bytes=round(4.82e12) if b != 7 else 0,
            bytes_before=round(before * 1e12),
            bytes_after=round(after * 1e12),
            replicas_before=170 + b,
            replicas_after=0 if b == 7 else 198 + b,
            leaders_before=58 + b,
            leaders_after=0 if b == 7 else 67 + b,
            bytes_received=0,
            bytes_sent=0,
        )
        for b, (before, after) in loads.items()
    )
    write_summary(record.plan_uri, summary.model_copy(update={"brokers": brokers}))
    record.freeze_plan(frozen)


def event(
    record: Record,
    step: str,
    batch: int | None,
    at: datetime,
    summary: str,
    outcome: str = "succeeded",
    **facts: object,
) -> None:
    record.audit.append(
        AuditEvent(
            sequence=0,
            previous_hash="",
            cluster_id=record.cluster_id,
            reassignment_id=record.reassignment_id,
            step=step,
            batch=batch,
            actor=Actor(requested_by="ann"),
            started_at=at,
            finished_at=at,
            outcome=outcome,
            summary=summary,
            facts=facts,
        )
    )


def finish(record: Record, number: int, started: datetime, ended: datetime, moves: int) -> None:
    for turn, step in enumerate(BATCH_STEPS):
        when = started + (ended - started) * turn / len(BATCH_STEPS)
        event(record, step, number, when, f"batch {number}: {step.replace('_', ' ')}, {moves} partitions")
    size = sum(s.reassignment.bytes_to_copy for s in _batch(number, moves))
    record.write_finished(
        FinishedBatch(
            number=number,
            partitions=moves,
            bytes_copied=size,
            started_at=started,
            finished_at=ended,
            left_out={"clicks-3": "broker 6 was down when the batch was submitted"} if number == 9 else {},
        )
    )


def copying(record: Record, number: int, at: datetime, moves: int) -> None:
    """The batch of this number, six minutes after its submission."""
    begun = at - timedelta(minutes=6)
    event(record, "admit", number, begun, f"batch {number} admitted: {moves} partitions, 144000.0 MB to copy")
    event(record, "set_throttle", number, begun, "80 MB/s on 7 brokers")
    event(record, "submit_batch", number, begun, f"batch {number}: {moves} expansions submitted")
    names = tuple(str(s.partition) for s in _batch(number, moves))
    record.write_submitted(number, SubmittedBatch(submitted_at=begun, accepted=names, left_out={}))
    ours = tuple(
        RateRecord(broker=b, side=side, earlier=Earlier(), set_values=("80000000",), was_in_place=True)
        for b in range(1, 8)
        for side in Side
        if (b, side) not in {(7, Side.FOLLOWER), (3, Side.FOLLOWER)}
    )
    before = Earlier(value="120000000", source=ConfigSource.DYNAMIC_BROKER)
    ours = (ours[0].model_copy(update={"earlier": before}), *ours[1:])
    lower = (LowerRate(broker=3, side=Side.FOLLOWER, bytes_per_second=50_000_000),)
    record.update_journal(lambda journal: (journal.model_copy(update={"rates": ours, "lower_rates": lower}), None))
    assert isinstance(record.journal(), Journal)
    note = progress_note(number, at, names)
    record.write_progress(note)


def progress_note(number: int, at: datetime, names: tuple[str, ...], *, left: int = 86 * GB) -> ProgressNote:
    flows = {1: (31, 21), 2: (38, 24), 3: (19, 12), 4: (35, 10), 5: (0, 0), 6: (37, 16), 7: (None, 77)}
    brokers = tuple(
        BrokerFlow(broker=b, received=None if r is None else r * 1e6, sent=s * 1e6) for b, (r, s) in flows.items()
    )
    kinds = [
        ("stuck", "broker 5 is down", 24.0, None, 5),
        ("will never finish", "9.1 MB/s are written, 8.7 MB/s copied: raise the rate or cancel", 17.0, 8.7, 3),
        ("slow", "it copies 6.2 MB/s of its share of 26.7 MB/s", 20.0, 6.2, 3),
        ("moving", "", 12.0, 31.0, 1),
        ("moving", "", 8.0, 35.0, 4),
        ("moving", "", 5.0, 37.0, 6),
    ]
    replicas = tuple(
        ReplicaShown(
            partition=name,
            broker=broker,
            motion=motion,
            reason=why,
            bytes_left=round(gb * GB),
            bytes_per_second=None if speed is None else speed * 1e6,
            seconds_left=gb * 1e3 / speed if speed and motion in {"moving", "slow"} else None,
            leader=7,
            replicas=(7, 2, broker),
            isr=(2, 7),
        )
        for name, (motion, why, gb, speed, broker) in zip(names, kinds, strict=False)
    )
    points = tuple(
        SpeedPoint(
            at=at - timedelta(seconds=340 - 10 * n),
            bytes_per_second=(150 + 22 * math.sin(n / 4)) * 1e6 * min(1, (n + 1) / 5),
            bytes_left=left + (34 - n) * 1_600_000_000,
        )
        for n in range(34)
    )
    return ProgressNote(
        batch=number,
        at=at,
        text=f"batch {number}: 0 of 6 partitions in sync, 86.0 GB left at 160.0 MB/s; blocked: orders-78: broker 5 is down",
        bytes_left=left,
        bytes_per_second=160e6,
        seconds_left=540.0,
        ends_at=at + timedelta(hours=2, minutes=51),
        shown=ProgressShown(
            replicas_by_motion={"moving": 3, "slow": 1, "will never finish": 1, "stuck": 1},
            replicas=replicas,
            brokers=brokers,
            history=points,
        ),
    )


def _batch(number: int, moves: int) -> list[Step]:
    return [
        move(
            TOPICS[i % 4],
            (number - 1) * moves + i,
            (7, 2),
            (2, 1 + (i + number) % 6 if (i + number) % 6 != 1 else 4),
            24 * GB,
        )
        for i in range(moves)
    ]


def _held(store: RecordStore, at: datetime) -> None:
    begun = at - timedelta(hours=5)
    record = begin(store, "prod-us", "rebalance-2026-w47", begun, throttle_mb_per_second=60)
    store.acquire("prod-us", ClusterLock(reassignment_id="rebalance-2026-w47", since=begun, requested_by="bob"))
    plan(record, [_batch(n, 6) for n in range(1, 9)], begun)
    finish(record, 1, begun + timedelta(minutes=1), begun + timedelta(minutes=17), 6)
    waits = (
        "the maintenance window is closed until Tue 01:00 Europe/Berlin",
        "another client is reassigning payments-4 (from 2,3 to 3,5)",
    )
    note = ProgressNote(
        batch=2, at=at, text=f"batch 2 waits: {'; '.join(waits)}", waits=waits, ends_at=at + timedelta(hours=19)
    )
    record.write_progress(note)


def _over(store: RecordStore, at: datetime) -> None:
    for n, job in enumerate(("add_brokers", "move_topics", "leaders", "restore_racks", "rebalance")):
        begun = at - timedelta(days=3 + n, minutes=17 * n)
        record = begin(
            store,
            (CLUSTER, "prod-us")[n % 2],
            f"{job.replace('_', '-')}-{40 + n}",
            begun,
            job=job,
            topics=["orders"],
            brokers=[1, 2],
        )
        plan(record, [_batch(1, 6), _batch(2, 6)], begun)
        for number in (1, 2):
            started = begun + timedelta(minutes=20 * number)
            finish(record, number, started, started + timedelta(minutes=15), 6)
        record.write_file("report.txt", b"verified")
