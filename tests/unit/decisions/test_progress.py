"""Bytes left, speed, time left, and which replicas will not make it."""

from __future__ import annotations

import pytest

from kafka_reassignment.decisions.progress import Motion, Progress, ReplicaProgress, progress
from kafka_reassignment.decisions.samples import Sample, measure_replica, sample_of
from kafka_reassignment.model import (
    Batch,
    InFlight,
    LogDirsReport,
    LogReplica,
    PartitionState,
    Reassignment,
    Replicas,
    Step,
    TopicPartition,
    View,
)
from kafka_reassignment.text import format_bytes, format_seconds

pytestmark = pytest.mark.quick

MB = 1_000_000
ALL = frozenset({1, 2, 3, 4, 5})


def p(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def step(number: int = 0, current: Replicas = (1, 2), target: Replicas = (3, 2), size: int = 100 * MB) -> Step:
    return Step(Reassignment(p(number), current, target, size))


def view(*steps: Step, isr: Replicas = (1, 2), leader: int | None = 1, live: frozenset[int] = ALL) -> View:
    return View(
        live_brokers=live,
        partitions={s.partition: PartitionState(s.reassignment.expanded, frozenset(isr), leader) for s in steps},
    )


def sample(at: float, *sizes: dict[int, int], lags: dict[int, int] | None = None, end: int | None = None) -> Sample:
    """Sizes in MB by broker, of partition 0, 1, ..."""
    in_bytes = {p(i): {b: mb * MB for b, mb in by_broker.items()} for i, by_broker in enumerate(sizes)}
    return Sample(at, in_bytes, {p(0): lags} if lags else {}, {p(0): end} if end else {})


def only(found: Progress) -> ReplicaProgress:
    assert len(found.replicas) == 1
    return found.replicas[0]


ONE = Batch(1, (step(),))
HALFWAY = [sample(0, {1: 100, 3: 20}), sample(30, {1: 100, 3: 50})]
"""Broker 3 copied 30 MB in 30 s, 50 are left."""


def test_speed_and_time_left_come_from_the_growth_over_the_window() -> None:
    found = progress(ONE, view(*ONE.steps), HALFWAY)
    replica = only(found)
    assert (replica.motion, replica.bytes_left, replica.bytes_per_second, replica.seconds_left) == (
        Motion.MOVING,
        50 * MB,
        MB,
        50,
    )
    assert str(found) == "0 of 1 partitions in sync, 50.0 MB left at 1.0 MB/s, about 50 s"


def test_time_left_counts_what_producers_write_during_the_copy() -> None:
    """30 MB copied, 15 MB written in 30 s: what is left shrinks by half a megabyte per second."""
    replica = only(progress(ONE, view(*ONE.steps), [sample(0, {1: 85, 3: 20}), sample(30, {1: 100, 3: 50})]))
    assert (replica.bytes_per_second, replica.seconds_left) == (MB, 100)


def test_samples_from_before_the_window_do_not_count() -> None:
    old_and_new = [sample(-100, {1: 100, 3: 0}), *HALFWAY]
    assert only(progress(ONE, view(*ONE.steps), old_and_new)).bytes_per_second == MB


def test_before_it_was_measured_long_enough_the_requested_rate_gives_the_time() -> None:
    found = progress(ONE, view(*ONE.steps), [sample(0, {1: 100, 3: 20})], asked_bytes_per_second=4 * MB)
    assert (found.bytes_per_second, found.seconds_left) == (None, 20)
    assert str(found) == "0 of 1 partitions in sync, 80.0 MB left, about 20 s"
    assert progress(ONE, view(*ONE.steps), []).bytes_left == 100 * MB
    assert progress(ONE, view(*ONE.steps), []).seconds_left is None


def test_a_receiver_is_as_fast_as_all_it_receives_and_the_slowest_receiver_counts() -> None:
    batch = Batch(1, (step(0), step(1), step(2, target=(4, 2))))
    samples = [
        sample(0, {1: 100, 3: 0}, {1: 100, 3: 0}, {1: 100, 4: 0}),
        sample(30, {1: 100, 3: 30}, {1: 100, 3: 60}, {1: 100, 4: 90}),
    ]
    found = progress(batch, view(*batch.steps), samples)
    assert found.seconds_left == pytest.approx((70 + 40) / 3)


def test_a_finished_batch_says_so_in_one_number() -> None:
    batch = Batch(1, (step(0), step(1)))
    assert str(progress(batch, view(step(0), isr=(1, 2, 3)), [])) == "2 of 2 partitions in sync"


def test_a_replica_in_sync_has_nothing_left_whatever_its_size() -> None:
    replica = only(progress(ONE, view(*ONE.steps, isr=(1, 2, 3)), HALFWAY))
    assert (replica.motion, replica.bytes_left, replica.seconds_left) == (Motion.IN_SYNC, 0, 0)


# Those that will not make it


def test_writes_that_come_in_faster_than_they_are_copied_never_end() -> None:
    found = progress(ONE, view(*ONE.steps), [sample(0, {1: 100, 3: 20}), sample(30, {1: 160, 3: 50})])
    assert only(found).motion is Motion.WILL_NEVER_FINISH
    assert str(found) == (
        "0 of 1 partitions in sync, 110.0 MB left at 1.0 MB/s, time left unknown; 1 will never finish: orders-0 on 3: "
        "2.0 MB/s are written, 1.0 MB/s copied: raise the rate or cancel"
    )


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (view(step(), live=ALL - {3}), "broker 3 is down"),
        (view(step(), leader=None), "the partition is offline: no leader to copy from"),
        (
            View(ALL, view(step()).partitions, {p(0): InFlight((1, 2, 3), (3,), (3,))}),
            "the move never completes: a broker is both added and removed; cancel it",
        ),
    ],
)
def test_a_known_block_is_reported_at_once(seen: View, why: str) -> None:
    replica = only(progress(ONE, seen, [sample(0, {1: 100, 3: 20})]))
    assert (replica.motion, replica.reason) == (Motion.STUCK, why)


def test_a_replica_that_does_not_grow_is_stuck() -> None:
    still = [sample(0, {1: 100, 3: 20}), sample(30, {1: 100, 3: 20})]
    replica = only(progress(ONE, view(*ONE.steps), still))
    assert replica.motion is Motion.STUCK
    assert replica.reason.startswith("nothing was copied for 30 s; look at the broker's log")
    tiered = only(progress(ONE, view(*ONE.steps), still, remote_storage_topics={"orders"}))
    assert "remote log auxiliary state" in tiered.reason
    assert only(progress(ONE, view(*ONE.steps), still[:1])).motion is Motion.MOVING


def test_a_replica_that_has_everything_waits_for_the_isr() -> None:
    replica = only(progress(ONE, view(*ONE.steps), [sample(0, {1: 100, 3: 100}), sample(30, {1: 100, 3: 100})]))
    assert (replica.motion, replica.reason) == (Motion.MOVING, "everything is copied, it is about to join the ISR")


def test_a_broker_that_does_not_report_its_log_dirs_is_reported_and_not_measured() -> None:
    silent = Sample(30, {p(0): {1: 100 * MB}}, unreachable={3: "timed out"})
    replica = only(progress(ONE, view(*ONE.steps), [HALFWAY[0], silent]))
    assert (replica.motion, replica.reason) == (Motion.STUCK, "broker 3 does not report its log dirs: timed out")
    back = [Sample(0, {p(0): {1: 100 * MB}}, unreachable={3: "timed out"}), HALFWAY[1]]
    assert only(progress(ONE, view(*ONE.steps), back)).bytes_per_second is None


def test_a_replica_of_a_broker_that_died_keeps_what_it_had_and_is_not_measured() -> None:
    down = view(*ONE.steps, live=frozenset({1, 2}))
    lost = Sample(60, {p(0): {1: 100 * MB}}, earlier_sizes={p(0): {3: 50 * MB}})
    found = progress(ONE, down, [*HALFWAY, lost])
    assert (found.bytes_left, found.bytes_per_second, found.seconds_left) == (50 * MB, None, None)
    report = LogDirsReport((), {})
    assert sample_of(report, at_seconds=90, before=lost).earlier_sizes == {p(0): {1: 100 * MB, 3: 50 * MB}}


def test_a_replica_that_is_cut_back_has_no_negative_speed() -> None:
    cut = [sample(0, {1: 100, 3: 50}), sample(30, {1: 100, 3: 20})]
    assert progress(ONE, view(*ONE.steps), cut).bytes_per_second == 0


def test_below_half_its_share_of_the_rate_a_replica_is_slow() -> None:
    """1 MB/s of 4 asked is slow; where two share the 2 asked, 1 MB/s each is all there is (F2)."""
    replica = only(progress(ONE, view(*ONE.steps), HALFWAY, asked_bytes_per_second=4 * MB))
    assert (replica.motion, replica.reason) == (Motion.SLOW, "it copies 1.0 MB/s of its share of 4.0 MB/s")
    two = Batch(1, (step(0), step(1)))
    samples = [
        sample(0, {1: 100, 3: 20}, {1: 100, 3: 20}),
        sample(30, {1: 100, 3: 50}, {1: 100, 3: 50}),
    ]
    found = progress(two, view(*two.steps), samples, asked_bytes_per_second=2 * MB)
    assert [r.motion for r in found.replicas] == [Motion.MOVING, Motion.MOVING]


def test_a_leader_that_sends_to_two_halves_the_share_of_each() -> None:
    two = Batch(1, (step(0, (1, 2), (3, 4)),))
    samples = [sample(0, {1: 100, 3: 20, 4: 20}), sample(30, {1: 100, 3: 50, 4: 50})]
    found = progress(two, view(*two.steps), samples, asked_bytes_per_second=3 * MB)
    assert [r.motion for r in found.replicas] == [Motion.MOVING, Motion.MOVING]


def test_a_replica_that_waits_for_its_turn_is_not_stuck_but_its_broker_may_be() -> None:
    """Twenty replicas share 1 MB/s: in 30 s each gets 1.5 MB, about one fetch, so one may have got nothing."""
    batch = Batch(1, tuple(step(i) for i in range(20)))
    before = sample(0, *({1: 100, 3: 20} for _ in range(20)))
    some = sample(30, *({1: 100, 3: 22 if i else 20} for i in range(20)))
    found = progress(batch, view(*batch.steps), [before, some], asked_bytes_per_second=MB)
    assert {r.motion for r in found.replicas} == {Motion.MOVING}
    nothing = sample(30, *({1: 100, 3: 20} for _ in range(20)))
    found = progress(batch, view(*batch.steps), [before, nothing], asked_bytes_per_second=MB)
    assert {r.motion for r in found.replicas} == {Motion.STUCK}
    flooded = sample(30, *({1: 110, 3: 22} for _ in range(20)))
    found = progress(batch, view(*batch.steps), [before, flooded], asked_bytes_per_second=MB)
    assert {r.motion for r in found.replicas} == {Motion.WILL_NEVER_FINISH}


def test_a_replica_that_is_not_submitted_has_not_started() -> None:
    not_submitted = View(ALL, {p(0): PartitionState((1, 2), frozenset({1, 2}), 1)})
    assert only(progress(ONE, not_submitted, [])).motion is Motion.NOT_STARTED


# Messages behind


def behind(taken: Sample) -> tuple[int | None, int | None]:
    found = measure_replica(step(), 3, 1, [taken])
    return found.messages_behind, found.log_end_offset


def test_messages_behind_are_measured_or_estimated_by_bytes() -> None:
    assert behind(sample(0, {1: 100, 3: 20}, lags={3: 850}, end=1000)) == (850, 150)
    assert behind(sample(0, {1: 100, 3: 20}, lags={3: 850})) == (850, None)
    assert behind(sample(0, {1: 100, 3: 20}, end=1000)) == (800, 200)
    assert behind(sample(0, {1: 100, 3: 20})) == (None, None)


def test_a_lag_of_zero_is_not_believed_while_there_are_bytes_left() -> None:
    """Brokers measure it against the replica's own high watermark; -1 is theirs for unknown."""
    assert behind(sample(0, {1: 100, 3: 20}, lags={3: 0}, end=1000)) == (800, 200)
    assert behind(sample(0, {1: 100, 3: 20}, lags={3: -1})) == (None, None)
    assert behind(sample(0, {1: 100, 3: 100}, lags={3: 0}, end=1000)) == (0, 1000)


def test_a_sample_has_the_size_of_each_replica_but_not_of_copies_between_log_dirs() -> None:
    report = LogDirsReport(
        (),
        (
            LogReplica(1, "/a", p(0), 100, 0),
            LogReplica(1, "/b", p(0), 7, 3, is_future=True),
            LogReplica(3, "/a", p(0), 20, 80),
        ),
        {5: "timed out"},
    )
    assert sample_of(report, at_seconds=2.0) == Sample(
        2.0, {p(0): {1: 100, 3: 20}}, {p(0): {1: 0, 3: 80}}, {}, {5: "timed out"}
    )


def test_without_the_leaders_size_the_largest_old_replica_counts() -> None:
    assert measure_replica(step(), 3, None, [sample(0, {1: 90, 2: 100, 3: 20})]).bytes_left == 80 * MB
    assert measure_replica(step(), 3, 1, [sample(0, {3: 20})]).bytes_left == 80 * MB


# The reassignment


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (1_234_567_890, "1.2 GB"),
        (99_949_999, "99.9 MB"),
        (99_950_000, "100.0 MB"),
        (999_499_999, "999.5 MB"),
        (1_000_000_000, "1.0 GB"),
        (5e15, "5.0 PB"),
    ],
)
def test_bytes_are_formatted_in_decimal_units(count: float, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.5, "1 min"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (7384, "2 h 3 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations_are_formatted_in_their_two_largest_units(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
