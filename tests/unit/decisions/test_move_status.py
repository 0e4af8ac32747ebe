"""Half-done states: where a partition stands between its current and its target replicas."""

import pytest

from kafka_reassignment.decisions.move_status import MoveStatus, move_statuses
from kafka_reassignment.model import Batch, InFlight, PartitionState, Reassignment, Step, TopicPartition, View

pytestmark = pytest.mark.quick

ORDERS_0 = TopicPartition("orders", 0)
MOVE = Step(Reassignment(ORDERS_0, (1, 2), (3, 4), 100))
ADDING = Step(Reassignment(ORDERS_0, (1, 2), (1, 3), 100))
BROKERS = frozenset({1, 2, 3, 4, 5})


def seen(replicas=None, isr=(), flight=None, live=BROKERS, leader=1):
    states = {ORDERS_0: PartitionState(replicas, frozenset(isr), leader)} if replicas else {}
    return View(live, states, {ORDERS_0: flight} if flight else {}, {"orders": 1})


def status_of(view, step=MOVE, *, accepted=True, left_out=None, given_up=None):
    statuses = move_statuses(
        Batch(1, (step,)),
        view,
        accepted={ORDERS_0} if accepted else (),
        left_out={ORDERS_0: left_out} if left_out else {},
        given_up={ORDERS_0: given_up} if given_up else {},
    )
    return statuses[ORDERS_0]


EXPANDING = InFlight((1, 2, 3, 4), adding=(3, 4), removing=())
DROPPING = InFlight((3, 4, 1, 2), adding=(), removing=(1, 2))


@pytest.mark.parametrize(
    ("view", "state", "reason"),
    [
        (seen((1, 2, 3, 4), {1, 2, 3}, EXPANDING), MoveStatus.IN_FLIGHT, "in flight to 1,2,3,4, waiting for 4"),
        (seen((3, 4, 1, 2), {1, 2, 3}, DROPPING), MoveStatus.IN_FLIGHT, "in flight to 3,4, waiting for 4"),
        (seen((3, 4), {3, 4}, leader=3), MoveStatus.COMPLETED, "at 3,4, target in sync"),
        (seen(), MoveStatus.COMPLETED, "orders-0 does not exist"),
        (seen((1, 2, 3), {1, 2, 3}), MoveStatus.PARTIALLY_EXPANDED, "at 1,2,3, 4 not added"),
        (seen((1, 2, 3, 4), {1, 2, 3, 4}), MoveStatus.EXPANDED, "at 1,2,3,4, target in sync"),
        (seen((1, 2, 3, 4), {1, 2, 3}), MoveStatus.EXPANDED, "at 1,2,3,4, 4 out of sync"),
        (
            seen((1, 2), {1, 2}),
            MoveStatus.CANCELLED_BY_OTHER,
            "at 1,2: the controller had accepted its move, which is gone though nothing of it is there",
        ),
        (
            seen((5, 1, 2), {1, 2}, InFlight((5, 1, 2), adding=(5,), removing=(1, 2))),
            MoveStatus.FOREIGN,
            "in flight to 5, neither the expansion nor the target of this step: another client's move",
        ),
        (
            seen((1, 5), {1, 5}),
            MoveStatus.STALE,
            "at 1,5, expected 1,2 or a state on the way to 3,4: stale plan",
        ),
        (
            seen((1, 2, 3, 4), {1, 2, 3}, EXPANDING, live=frozenset({1, 2, 3})),
            MoveStatus.STUCK,
            "in flight to 1,2,3,4, waiting for 4; broker 4 of the target 3,4 is down",
        ),
        (
            seen((1, 2, 3, 4), {1}, EXPANDING, leader=None),
            MoveStatus.STUCK,
            "in flight to 1,2,3,4, waiting for 2,3,4; the partition is offline: it has no leader",
        ),
        (
            seen((3, 4, 1, 2), {1, 2, 3, 4}, InFlight((3, 4, 1, 2), adding=(3, 4), removing=(1, 4))),
            MoveStatus.STUCK,
            "which Kafka never completes: broker 4 is both added and removed. Cancel it",
        ),
        (
            seen((1, 2, 3, 4), {1, 2, 3, 4}, EXPANDING),
            MoveStatus.STUCK,
            "in flight to 1,2,3,4 though all of it is in sync: it should have completed",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, MoveStatus) else "",
)
def test_every_half_done_state_is_recognised(view, state, reason):
    found = status_of(view)
    assert found.status is state
    assert found.reason.endswith(reason)


def test_a_sick_replica_that_stays_makes_a_move_stuck():
    found = status_of(seen((1, 2, 3), {2, 3}, InFlight((1, 2, 3), (3,), ()), leader=2), ADDING)
    assert found.status is MoveStatus.STUCK
    assert found.reason.endswith(
        "broker 1, which stays, is out of sync; every adding replica has caught up. The old replicas are kept until it is "
        "back: bring it back, or cancel and trigger a reassignment that moves the partition off it"
    )


def test_gone_is_only_cancelled_when_the_controller_had_accepted_it():
    assert status_of(seen((1, 2), {1, 2}), accepted=False).status is MoveStatus.NOT_SUBMITTED


def test_a_mere_reorder_is_never_called_cancelled():
    """It has no expansion that could be gone."""
    reorder = Step(Reassignment(ORDERS_0, (1, 2), (2, 1), 100))
    assert status_of(seen((1, 2), {1, 2}), reorder).status is MoveStatus.EXPANDED


@pytest.mark.parametrize("view", [seen((1, 2), {1, 2}), seen((1, 5), {1, 5})], ids=["at its current", "elsewhere"])
def test_what_was_left_out_is_reported_with_its_reason(view):
    found = status_of(view, left_out="POLICY_VIOLATION: not on a Friday", accepted=False)
    assert found.status is MoveStatus.LEFT_OUT
    assert found.reason.startswith("POLICY_VIOLATION: not on a Friday; now at ")


def test_what_was_left_out_and_came_to_its_target_all_the_same_is_completed():
    assert status_of(seen((3, 4), {3, 4}, leader=3), left_out="refused", accepted=False).status is MoveStatus.COMPLETED


def test_what_was_given_up_is_cancelled_unless_it_is_in_flight():
    assert str(status_of(seen((1, 2), {1, 2}), given_up="stopped by ann")) == "cancelled: stopped by ann; now at 1,2"
    assert status_of(seen((1, 5), {1, 5}), given_up="stopped by ann").status is MoveStatus.CANCELLED
    assert status_of(seen((1, 2, 3, 4), {1, 2}, EXPANDING), given_up="stopped by ann").status is MoveStatus.IN_FLIGHT
    assert status_of(seen((1, 2, 3), {1, 2, 3}), given_up="stopped by ann").status is MoveStatus.PARTIALLY_EXPANDED
