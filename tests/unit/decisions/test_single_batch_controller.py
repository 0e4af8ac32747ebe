"""What is different where the controller takes one batch at a time and cannot cancel it."""

import pytest

from kafka_reassignment.decisions.cancel import Cancels, Settling, settling
from kafka_reassignment.decisions.controller import Unfinished
from kafka_reassignment.decisions.moves import Phase, expansions_to_submit, phase
from kafka_reassignment.decisions.single_batch_controller import SingleBatchController, controller_of
from kafka_reassignment.model import (
    Batch,
    ClusterDescription,
    InFlight,
    PartitionState,
    Reassignment,
    Refusal,
    Replicas,
    Step,
    TopicPartition,
    View,
)

pytestmark = pytest.mark.quick

OLD = SingleBatchController()
P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)


def step(partition: TopicPartition, current: Replicas, target: Replicas) -> Step:
    return Step(Reassignment(partition, current, target))


def state(replicas: Replicas, *isr: int) -> PartitionState:
    return PartitionState(replicas, frozenset(isr or replicas), (isr or replicas)[0])


def view(
    states: dict[TopicPartition, PartitionState], *dead: int, in_flight: dict[TopicPartition, InFlight] | None = None
) -> View:
    return View(frozenset({1, 2, 3, 4}) - set(dead), states, in_flight or {}, {"orders": 1})


def submitted(one: Step, seen: View) -> Replicas:
    batch = Batch(1, (one,))
    return OLD.submissions(batch, seen, expansions_to_submit(batch, seen).to_submit)[one.partition]


def test_with_every_old_replica_in_sync_the_expansion_is_submitted():
    assert submitted(step(P, (1, 2), (1, 3)), view({P: state((1, 2))})) == (1, 2, 3)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (view({P: state((1, 2), 1)}, 2), "dead and out of the ISR"),
        (view({P: state((1, 2))}, 2), "dead, still in the ISR"),
        (view({P: state((1, 2), 1)}), "alive, but out of sync"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_an_old_replica_out_of_sync_would_hold_the_expansion_for_ever_so_the_target_is_submitted(seen, why):
    one = step(P, (1, 2), (1, 3))
    assert submitted(one, seen) == (1, 3), why
    flying = view(seen.partitions, in_flight={P: InFlight((1, 3, 2), (3,), (2,))})
    assert phase(one, flying).phase is Phase.DROPPING, "and it is known as ours"


def test_a_replica_that_stays_and_is_out_of_sync_does_not_make_our_expansion_foreign():
    """ZooKeeper does not keep which replicas are adding, so 1 is reported as adding too."""
    one = step(P, (1, 2), (1, 3))
    seen = view({P: state((1, 2, 3), 2)}, in_flight={P: InFlight((1, 2, 3), (1, 3), ())})
    assert phase(one, seen).phase is Phase.EXPANDING


def test_a_batch_in_sync_is_not_finished_while_an_old_replica_is_out_of_sync():
    seen = view({P: state((1, 2, 3), 1, 3)}, in_flight={P: InFlight((1, 2, 3), (2,), ())})
    assert OLD.unfinished(seen) == Unfinished(
        "the controller has not finished orders-0 and takes no other batch meanwhile; broker 2 is out of sync: bring it back",
        held_up={P: (2,)},
    )
    assert OLD.unfinished(view({P: state((1, 2, 3))})) is None


def test_what_was_stopped_goes_on_and_what_is_done_waits_for_its_turn():
    steps = [step(P, (1, 2), (1, 3)), step(Q, (1, 2), (1, 3))]
    seen = view({P: state((1, 2, 3), 1, 2), Q: state((1, 2, 3))}, in_flight={P: InFlight((1, 2, 3), (3,), ())})
    assert OLD.settle(settling(steps, seen), seen) == Settling(
        Cancels(carry_on={P: "Kafka below 2.4 cannot cancel: it goes on to 1,2,3, and can be taken back then"}),
        stranded={Q: "its turn comes when the controller has finished what is in flight"},
    )


def test_when_nothing_is_in_flight_everything_is_taken_back():
    seen = view({P: state((1, 2, 3))})
    decided = OLD.settle(settling([step(P, (1, 2), (1, 3))], seen), seen)
    assert decided.to_submit == {P: (1, 2)}


def test_a_controller_with_the_reassignment_api_is_never_busy_and_changes_no_decision():
    new = controller_of(ClusterDescription("c", {}))
    seen = view({P: state((1, 2, 3), 1, 2)}, in_flight={P: InFlight((1, 2, 3), (3,), ())})
    decided = settling([step(P, (1, 2), (1, 3))], seen)
    assert new.settle(decided, seen) == decided
    assert new.submissions(Batch(1, ()), seen, {P: (1, 2, 3)}) == {P: (1, 2, 3)}
    assert new.unfinished(seen) is None
    assert new.busy_message({P: Refusal("REASSIGNMENT_IN_PROGRESS", "busy")}) is None
    assert (new.max_batch, new.busy_seconds) == (None, 0)


def test_the_description_of_a_cluster_says_which_controller_it_has():
    assert isinstance(controller_of(ClusterDescription("c", {}, has_reassignment_api=False)), SingleBatchController)
    assert (
        OLD.busy_message({P: Refusal("POLICY_VIOLATION", "no"), Q: Refusal("REASSIGNMENT_IN_PROGRESS", "busy")})
        == "busy"
    )
