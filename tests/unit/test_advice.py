"""Advice: the same in words and as data."""

import json

import pytest

from kafka_reassignment.advice import (
    Correct,
    ReleaseLock,
    Rerun,
    StartBrokers,
    Trigger,
    WaitUntil,
    advice_as_data,
    advice_from_data,
    sentence,
)
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    InvalidRequestError,
    InvalidSetupError,
    NotAuthorizedError,
    ReassignmentError,
    StalePlanError,
    advise_rerun,
)

pytestmark = pytest.mark.quick

EVERY_KIND = (
    Rerun("submit_batch", batch=2, reassignment_id="r"),
    Trigger("kafka_reassignment_resume", {"reassignment_id": "r"}),
    StartBrokers((3, 4)),
    WaitUntil("the move ends"),
    ReleaseLock("c", "r"),
    Correct("give another id"),
)


def test_a_message_ends_with_its_advice():
    error = StalePlanError("orders-3 is at 1,2, expected 3,4", StartBrokers((3,)), Rerun("submit_batch", batch=2))
    assert str(error) == (
        "orders-3 is at 1,2, expected 3,4. Bring broker 3 back, then rerun submit_batch of batch 2 and what follows"
    )
    assert sentence(()) == ""


def test_a_problem_ends_with_one_full_stop_whenever_its_advice_is_given():
    at_once = StalePlanError("orders-3 is elsewhere.", Rerun("plan"))
    later = StalePlanError("orders-3 is elsewhere.")
    assert str(later) == "orders-3 is elsewhere."
    later.set_advice(Rerun("plan"))
    assert str(at_once) == str(later) == "orders-3 is elsewhere. Rerun plan and what follows"
    assert at_once.problem == later.problem == "orders-3 is elsewhere"


def test_advice_survives_the_record():
    assert advice_from_data(json.loads(json.dumps(advice_as_data(EVERY_KIND)))) == EVERY_KIND
    assert advice_from_data(None) == ()


def test_each_kind_reads_as_a_clause():
    assert sentence(EVERY_KIND) == (
        "Rerun submit_batch of batch 2 of reassignment r and what follows, then trigger kafka_reassignment_resume with "
        "reassignment_id r, then bring broker 3, 4 back, then wait until the move ends, then unlock the cluster with "
        "'kafka-reassignment lock release c r', then give another id"
    )


def test_a_passing_error_without_advice_says_what_is_to_be_rerun():
    error = ClusterUnavailableError("No broker answers. Check that the brokers are up.")
    advise_rerun(error, "plan")
    advise_rerun(error, "another")
    assert error.advice == (Rerun("plan"),)
    assert str(error) == "No broker answers. Check that the brokers are up. Rerun plan and what follows"


def test_neither_a_refused_request_nor_another_advice_is_to_be_rerun():
    for error in (
        InvalidRequestError("no rate", Correct("name one")),
        ClusterUnavailableError("no leader", StartBrokers((3,))),
    ):
        before = str(error)
        advise_rerun(error, "plan")
        assert str(error) == before


def test_what_is_corrected_outside_of_the_request_is_to_be_rerun_after_it():
    for error, correct in (
        (NotAuthorizedError("no ACL", Correct("grant ALTER")), Correct("grant ALTER")),
        (InvalidSetupError("no number", Correct("correct the setting")), Correct("correct the setting")),
    ):
        advise_rerun(error, "submit_batch", 2)
        advise_rerun(error, "another")
        assert error.advice == (correct, Rerun("submit_batch", batch=2))


def test_no_error_of_a_step_is_without_advice():
    error = ReassignmentError("The cluster refused it (an error of tomorrow).")
    advise_rerun(error, "submit_batch", 2)
    assert error.advice == (Rerun("submit_batch", batch=2),)
