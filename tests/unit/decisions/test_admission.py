"""Admission of a batch: every reason to wait, and none that the reassignment itself causes or fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kafka_reassignment.decisions.admission import (
    Health,
    disk_reasons,
    health,
    inbound_bytes_per_second,
    new_writes,
    outpaced,
    reasons_to_wait,
)
from kafka_reassignment.decisions.moves import to_begin
from kafka_reassignment.decisions.samples import Sample
from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.model import (
    Batch,
    InFlight,
    LogDir,
    PartitionState,
    Reassignment,
    Replicas,
    Step,
    TopicPartition,
    View,
)

pytestmark = pytest.mark.quick

MB = 1_000_000
ALL = frozenset({1, 2, 3, 4})
OURS, OTHER = TopicPartition("orders", 0), TopicPartition("payments", 7)
BATCH = Batch(1, (Step(Reassignment(OURS, (1, 2), (3, 2), 100 * MB)),))


def seen(replicas: Replicas = (1, 2), isr: Replicas = (1, 2), *, live: frozenset[int] = ALL) -> View:
    return View(live, {OURS: PartitionState(replicas, frozenset(isr), 1)}, min_insync_replicas={"orders": 1})


def gate(
    view: View | None = None, *, log_dirs: Sequence[LogDir] = (), keep_free_share: float = 0.1, **facts: object
) -> tuple[str, ...]:
    view = view or seen()
    beginning = to_begin(BATCH, view, supersede=bool(facts.get("supersede")))
    full = disk_reasons(beginning, log_dirs, keep_free_share)
    return reasons_to_wait(BATCH, view, full=full, **facts)  # type: ignore[arg-type]


def test_a_quiet_cluster_admits_the_batch() -> None:
    assert gate() == ()


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (
            {"foreign": {OTHER}},
            "another client is reassigning payments-7: let it finish, and pause tools that move replicas by themselves",
        ),
        (
            {"foreign": {OTHER}, "of_superseded": {OTHER: "1 is out of sync"}},
            "what was superseded still moves payments-7 (1 is out of sync): it is cancelled as soon as that is safe",
        ),
        ({"unhealthy": Health(offline=(OTHER,))}, "1 partitions are offline (payments-7)"),
        (
            {"unhealthy": Health(under_min_isr=(OTHER,))},
            "1 partitions are under min.insync.replicas (payments-7)",
        ),
        ({"unhealthy": Health(under_replicated=(OTHER,))}, "1 partitions are under-replicated (payments-7)"),
        ({"other_reasons": ("too slow",)}, "too slow"),
        (
            {"log_dirs": [LogDir(3, "/b", 1000 * MB, 150 * MB)]},
            (
                "log dir /b of broker 3 has room for 50.0 MB with 10% kept free, the batch may bring 100.0 MB: free space "
                "there, or lower the limits and rerun start_batches"
            ),
        ),
        (
            {"view": seen(live=ALL - {3})},
            "none of its 1 partitions can be moved now: orders-0: broker 3 of the target 3,2 is down",
        ),
    ],
)
def test_each_reason_to_wait_is_reported(facts: dict[str, object], reason: str) -> None:
    assert gate(**facts) == (reason,)
    assert gate(**facts)


def test_all_reasons_are_reported_at_once() -> None:
    assert len(gate(other_reasons=("closed",), foreign={OTHER}, view=seen(live=ALL - {2}))) == 3


def test_the_broker_that_the_batch_takes_replicas_away_from_may_be_down() -> None:
    assert not gate(seen(isr=(2,), live=ALL - {1}))


def test_the_worst_log_dir_counts_and_one_without_sizes_does_not() -> None:
    roomy, full = LogDir(3, "/a", 1000 * MB, 900 * MB), LogDir(3, "/b", 1000 * MB, 150 * MB)
    assert gate(log_dirs=[roomy, full])
    assert not gate(log_dirs=[full], keep_free_share=0.05)
    assert not gate(log_dirs=[roomy, LogDir(3, "/b"), LogDir(2, "/c", 1000, 0)])
    assert not gate(log_dirs=[roomy, replace(full, cordoned=True)])


def test_log_dirs_share_what_a_broker_receives_as_the_planner_counts_it() -> None:
    """Else a plan that fits would be held back for ever: nothing makes room for all of it on one of them."""
    two = Batch(1, tuple(Step(Reassignment(TopicPartition("orders", n), (1, 2), (3, 2), 100 * MB)) for n in (0, 1)))
    dirs = [LogDir(3, name, 1000 * MB, 280 * MB) for name in ("/a", "/b")]
    assert not disk_reasons(two, dirs, 0.1)
    assert disk_reasons(two, dirs[:1], 0.1)
    small = [replace(one, usable_bytes=190 * MB) for one in dirs]
    assert disk_reasons(two, small, 0.1), "one copy alone does not fit"


@pytest.mark.parametrize("supersede", [False, True])
def test_there_has_to_be_room_for_what_another_client_moves_only_where_it_is_superseded(supersede: bool) -> None:
    theirs = replace(seen((1, 2, 4)), in_flight={OURS: InFlight((1, 2, 4), (4,), (2,))})
    assert bool(gate(theirs, supersede=supersede, log_dirs=[LogDir(3, "/a", 1000 * MB, 150 * MB)])) is supersede


def test_a_batch_is_not_held_back_by_what_its_own_partitions_suffer_from() -> None:
    expanded = seen((1, 2, 3), (1, 2))
    own_trouble = Health(under_replicated=(OURS,)).elsewhere(BATCH.partitions)
    assert own_trouble == Health()
    assert not gate(expanded, unhealthy=own_trouble, log_dirs=[LogDir(3, "/a", 100, 0)])
    assert not gate(seen((1, 2), (1,)), unhealthy=own_trouble)


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (seen(live=ALL - {3}), "broker 3 of the target 3,2 is down"),
        (seen(live=ALL - {2}), "broker 2 of the target 3,2 is down"),
        (replace(seen(), partitions={OURS: PartitionState((1, 2), frozenset(), None)}), "the partition is offline"),
        (replace(seen(), min_insync_replicas={"orders": 3}), "has fewer replicas than min.insync.replicas, 3"),
    ],
)
def test_a_step_that_cannot_be_carried_out_now_is_blocked_and_may_be_left_for_later(view: View, reason: str) -> None:
    assert reason in gate(view)[0]
    assert not gate(view, goes_without_blocked=True)


def test_replicas_that_leave_may_be_down_even_below_min_isr() -> None:
    assert not gate(replace(seen(isr=(2,), live=ALL - {1}), min_insync_replicas={"orders": 2}))


def test_as_many_unhealthy_partitions_as_the_request_allows_are_no_reason() -> None:
    unhealthy = Health(under_replicated=(OTHER, TopicPartition("payments", 8)))
    assert not gate(unhealthy=unhealthy.beyond(2))
    assert gate(unhealthy=unhealthy.beyond(1))


# Health


def cluster(replicas: Replicas, isr: Replicas, leader: int | None = 1, *, flight: InFlight | None = None) -> View:
    return View(
        ALL,
        {OTHER: PartitionState(replicas, frozenset(isr), leader)},
        {OTHER: flight} if flight else {},
        {"payments": 2},
    )


def test_a_partition_is_reported_once_by_its_worst_problem() -> None:
    assert health(cluster((1, 2, 3), (1, 2, 3))) == Health()
    assert health(cluster((1, 2, 3), (1, 2))) == Health(under_replicated=(OTHER,))
    assert health(cluster((1, 2, 3), (1,))) == Health(under_min_isr=(OTHER,))
    assert health(cluster((1, 2, 3), (1,), None)) == Health(offline=(OTHER,))


def test_replicas_being_added_do_not_make_a_partition_under_replicated() -> None:
    assert health(cluster((1, 2, 4), (1, 2), flight=InFlight((1, 2, 4), (4,), ()))) == Health()


def test_replicas_on_a_broker_that_is_being_emptied_are_not_waited_for() -> None:
    assert health(cluster((1, 2, 3), (1, 2)), leaving_brokers={3}) == Health()


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ((1, 2, 4), Health()),
        ((1, 2), Health()),
        ((1, 3, 4), Health(under_replicated=(OTHER,))),
        ((1, 2, 3), Health(under_replicated=(OTHER,))),
    ],
)
def test_replicas_that_the_plan_takes_away_are_not_waited_for(target: Replicas, found: Health) -> None:
    assert health(cluster((1, 2, 3), (1, 2)), targets={OTHER: target}) == found


def test_a_partition_under_min_isr_is_unhealthy_unless_the_plan_gives_it_enough_replicas() -> None:
    assert health(cluster((1, 2, 3), (1,)), targets={OTHER: (1, 4)}) == Health()
    assert health(cluster((1, 2, 3), (1,)), targets={OTHER: (1, 2, 3)}) == Health(under_min_isr=(OTHER,))
    assert health(cluster((1, 2), (1,)), leaving_brokers={2}) == Health()
    assert health(cluster((1, 2), (), None), targets={OTHER: (3, 4)}) == Health(offline=(OTHER,))


def test_min_isr_above_the_replication_factor_asks_for_all_replicas_as_brokers_do() -> None:
    assert health(cluster((1,), (1,))) == Health()
    assert health(cluster((1, 2), (1,))) == Health(under_min_isr=(OTHER,))


# Whether the rate can finish


def moving(count: int, adding: Replicas = (3,)) -> tuple[Batch, View]:
    steps = tuple(Step(Reassignment(TopicPartition("orders", i), (1, 2), (2, *adding))) for i in range(count))
    return Batch(1, steps), View(ALL, {s.partition: PartitionState((1, 2), frozenset({1, 2}), 1) for s in steps})


def test_writes_to_all_moving_partitions_of_a_broker_have_to_stay_below_its_rate() -> None:
    """Three partitions with 2 MB/s each to broker 3: 6 MB/s never finish at 6, they do at 7 (F2)."""
    batch, view = moving(3)
    inbound = dict.fromkeys(batch.partitions, 2.0 * MB)
    load = new_writes(batch, view, inbound)
    assert outpaced(load, dict.fromkeys(load, 7 * MB)) == {}
    assert tuple(outpaced(load, dict.fromkeys(load, 6 * MB)).values()) == (
        (
            "at 6.0 MB/s the batch can never finish: broker 3 would have to receive 6.0 MB/s of new writes alone. Raise the "
            "rate above that, or move fewer partitions at once"
        ),
        (
            "at 6.0 MB/s the batch can never finish: broker 1 would have to send 6.0 MB/s of new writes alone. Raise the "
            "rate above that, or move fewer partitions at once"
        ),
    )


def test_a_leader_sends_once_for_each_new_replica() -> None:
    batch, view = moving(1, adding=(3, 4))
    load = new_writes(batch, view, {batch.partitions[0]: 2.0 * MB})
    found = outpaced(load, dict.fromkeys(load, 3 * MB))
    assert list(found) == [(Side.LEADER, 1)]
    assert "broker 1 would have to send 4.0 MB/s" in found[Side.LEADER, 1]


def test_each_broker_is_compared_with_its_own_rate() -> None:
    batch, view = moving(1)
    load = new_writes(batch, view, {batch.partitions[0]: 2.0 * MB})
    found = outpaced(load, {(Side.LEADER, 1): 10 * MB, (Side.FOLLOWER, 3): MB})
    assert list(found) == [(Side.FOLLOWER, 3)]


def test_partitions_without_writes_finish_at_any_rate() -> None:
    batch, view = moving(3)
    load = new_writes(batch, view, {})
    assert outpaced(load, dict.fromkeys(load, 1)) == {}


def test_inbound_is_the_growth_of_the_leader() -> None:
    batch, view = moving(2)
    first, second = batch.partitions
    samples = [
        Sample(-100, {first: {1: 0}}),
        Sample(0, {first: {1: 100, 2: 100}, second: {1: 100}}),
        Sample(20, {first: {1: 140, 2: 100}, second: {1: 60}}),
    ]
    assert inbound_bytes_per_second(batch, view, samples) == {first: 2.0, second: 0.0}
    assert inbound_bytes_per_second(batch, view, samples[2:]) == {}
    assert inbound_bytes_per_second(batch, view, []) == {}
