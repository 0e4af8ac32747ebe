"""A broker's refusal as an error of its kind."""

import pytest

from kafka_reassignment.errors import (
    InvalidAssignmentError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    NotAuthorizedError,
    PolicyViolationError,
    ReassignmentError,
    ReassignmentInProgressError,
    UnknownTopicOrPartitionError,
    error_of,
)
from kafka_reassignment.model import Refusal

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("CLUSTER_AUTHORIZATION_FAILED", NotAuthorizedError),
        ("TOPIC_AUTHORIZATION_FAILED", NotAuthorizedError),
        ("POLICY_VIOLATION", PolicyViolationError),
        ("UNKNOWN_TOPIC_OR_PARTITION", UnknownTopicOrPartitionError),
        ("REASSIGNMENT_IN_PROGRESS", ReassignmentInProgressError),
        ("INVALID_REPLICA_ASSIGNMENT", InvalidAssignmentError),
        ("INVALID_PARTITIONS", InvalidPartitionsError),
        ("INVALID_REPLICATION_FACTOR", InvalidReplicationFactorError),
        ("UNKNOWN_SERVER_ERROR", ReassignmentError),
    ],
)
def test_each_error_case_of_kip_179_has_its_own_class_and_keeps_the_brokers_words(code, kind):
    error = error_of(Refusal(code, "Too many."), "adding partitions 2, 3 to topic orders", "Ask for fewer.")
    assert type(error) is kind
    assert (
        str(error) == f"The cluster refused adding partitions 2, 3 to topic orders ({code}: Too many.). Ask for fewer."
    )
