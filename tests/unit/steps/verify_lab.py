"""What the tests of verify share."""

import pytest
from tests.steps_lab import Run

from kafka_reassignment.errors import VerificationError
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)


def failed(run: Run) -> VerificationError:
    with pytest.raises(VerificationError) as error:
        run.finish()
    return error.value


def leader(cluster, partition):
    return cluster.describe_partitions([partition.topic])[partition].leader


def set_min_insync(cluster, topic, least):
    change = ConfigChange(ConfigResource.topic(topic), "min.insync.replicas", ConfigOperation.SET, least)
    assert not any(cluster.alter_configs([change]).values())
