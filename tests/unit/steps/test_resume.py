"""A resume lifts the stop that it found, and none that was ordered since."""

from dataclasses import replace

import pytest
from tests.steps_lab import move

from kafka_reassignment.advice import Trigger
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.resume import resume

pytestmark = pytest.mark.quick

WHOLE = CancelScope()
MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]


def of_run(run, run_id):
    return replace(run.context, actor=Actor(run_id=run_id))


@pytest.mark.parametrize("was_stopped", [True, False], ids=["stopped before", "its run was deleted"])
def test_a_retry_of_a_resume_lifts_no_stop_that_was_ordered_after_it(reassignment, was_stopped):
    """Its worker died after the stop was lifted, and a person stops it again before Airflow tries once more."""
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    if was_stopped:
        cancel.stop(run.context, WHOLE, by="ann")
    resume(of_run(run, "resume_1"), by="bob", has_run=False)
    cancel.stop(run.context, WHOLE, by="carol")
    with pytest.raises(
        InvalidRequestError, match="was stopped by carol at .*, since this run of .* has begun"
    ) as refused:
        resume(of_run(run, "resume_1"), by="bob", has_run=False)
    assert refused.value.advice == (Trigger("kafka_reassignment_resume", {"reassignment_id": "r"}),)
    assert run.record.stopped().by == "carol"
    resume(of_run(run, "resume_2"), by="bob")
    assert run.record.stopped() is None


def test_a_resume_lifts_no_stop_that_is_ordered_while_it_looks(reassignment):
    """Another person lifts the stop that it has read, and a third one stops again, right before it writes."""
    run = reassignment(MOVES)
    cancel.stop(run.context, WHOLE, by="ann")
    clock = iter([lambda: None, lambda: (resume(run.context, by="carol"), cancel.stop(run.context, WHOLE, by="dave"))])

    def now():
        next(clock, lambda: None)()
        run.clock.sleep(1)
        return run.clock.now

    with pytest.raises(InvalidRequestError, match="was stopped by dave"):
        resume(replace(of_run(run, "slow"), now=now), by="bob")
    assert run.record.stopped().by == "dave"


@pytest.mark.parametrize("has_run", [True, False], ids=["has another's run", "has no run"])
def test_a_stopped_reassignment_of_another_dag_starts_over_no_run_of_its_id_that_is_not_its_own(reassignment, has_run):
    """Two clusters may share a run id where each step is in the one run: the other cluster's run would be cleared."""
    run = reassignment(MOVES)
    begun = replace(run.context, actor=Actor(dag_id="my_move", run_id="r"))
    with begun.audited("preflight"):
        pass
    cancel.stop(run.context, WHOLE, by="ann")
    if has_run:
        with pytest.raises(InvalidRequestError, match="begun by the DAG my_move, and kafka_reassignment has a run of"):
            resume(of_run(run, "resume_1"), by="bob")
        assert run.record.stopped() is not None
        return
    resume(of_run(run, "resume_1"), by="bob", has_run=False)
    cancel.stop(run.context, WHOLE, by="ann")
    resume(of_run(run, "resume_2"), by="bob", has_run=True)
    assert run.record.stopped() is None
