"""What happens between a look at the throttle and the request that was decided on it, or before the request shows."""

from datetime import timedelta

import pytest
from tests.unit.steps.throttle_lab import MOVES

from kafka_reassignment.errors import ThrottleMissingError
from kafka_reassignment.steps.sweep import sweep

pytestmark = pytest.mark.longer


@pytest.fixture
def run(reassignment):
    made = reassignment(MOVES)
    made.before = made.configs("orders")
    return made


def swept(run, hours=0.0):
    run.clock.now += timedelta(hours=hours)
    run.store.release(run.cluster_id, "r")
    return sweep(run.context_of(run.store.record(run.cluster_id, "sweep")), by="cron")


def test_what_was_set_and_is_not_seen_yet_is_not_forgotten_by_a_stop(run, cluster):
    slept = [run.clock.now]

    def by_the_same_clock():
        cluster.advance((run.clock.now - slept.pop()).total_seconds())
        slept.append(run.clock.now)

    run.clock.on_sleep.append(by_the_same_clock)
    run.do("admit")
    cluster.lag(6, "describe_configs")
    with pytest.raises(ThrottleMissingError):
        run.do("set_throttle")
    run.stop_all()
    assert run.record.journal().is_settled
    cluster.advance(60)
    for _ in range(3):
        swept(run, hours=1)
    assert run.configs("orders") == run.before
    assert run.record.journal().is_over
