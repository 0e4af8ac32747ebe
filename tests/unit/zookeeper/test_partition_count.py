"""More partitions below Kafka 2.4: none are added, to whatever topic, while anything is being reassigned."""

import pytest
from tests.partition_count_lab import Growing
from upath import UPath

from kafka_reassignment.advice import Rerun, WaitUntil
from kafka_reassignment.errors import ReassignmentInProgressError
from kafka_reassignment.model import TopicPartition

pytestmark = pytest.mark.quick

THEIRS_0 = TopicPartition("theirs", 0)


@pytest.mark.parametrize("step", ["plan_placement", "create_partitions"])
def test_the_advice_is_to_wait_and_to_rerun_the_step(old, tmp_path, step):
    run = Growing(old, UPath(tmp_path), topic="orders", partitions=4)
    steps = ["preflight", "plan_placement", "create_partitions", "verify"]
    at = steps.index(step)
    run.do_all(*steps[:at])
    old.somebody_submits({THEIRS_0: (4, 6)})
    with pytest.raises(ReassignmentInProgressError, match="A partition reassignment is in progress") as refused:
        run.do(step)
    assert refused.value.advice == (WaitUntil("nothing of the cluster is being reassigned"), Rerun(step))
    old.kafka.catch_up_all()
    old.work()
    run.do_all(*steps[at:])
    assert len(old.describe_partitions(["orders"])) == 4
