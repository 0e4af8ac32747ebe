"""The DAG ``kafka_partition_count`` on a real Airflow against real brokers."""

import time

import pytest
from tests.airflow.lab import replicas

from kafka_reassignment_airflow.runs import PARTITION_COUNT_DAG_ID

pytestmark = [pytest.mark.airflow, pytest.mark.kafka]


@pytest.fixture
def growth(airflow, reassignments):
    return Growth(airflow, reassignments)


class Growth:
    """Runs of the DAG: several at once, because a run is mostly the scheduler's pauses."""

    def __init__(self, airflow, reassignments):
        self._airflow = airflow
        self._records = reassignments

    def trigger(self, run_id, **conf):
        return self._airflow.trigger(PARTITION_COUNT_DAG_ID, {"kafka_conn_id": "kafka_default", **conf}, run_id)

    def wait(self, run_id, *, seconds=120):
        end = time.monotonic() + seconds
        while (state := self._airflow.run_state(PARTITION_COUNT_DAG_ID, run_id)) not in {"success", "failed"}:
            assert time.monotonic() < end, f"{run_id} is {state}: {self.states(run_id)}"
            time.sleep(0.5)
        return state

    def states(self, run_id):
        return {t: i["state"] for t, i in self._airflow.find_tasks(PARTITION_COUNT_DAG_ID, run_id).items()}

    def log(self, run_id, task_id):
        tries = self._airflow.tasks(PARTITION_COUNT_DAG_ID, run_id)[task_id]["try_number"]
        return self._airflow.task_log(PARTITION_COUNT_DAG_ID, run_id, task_id, tries)

    def clear(self, run_id):
        self._airflow.clear(PARTITION_COUNT_DAG_ID, run_id, only_failed=False)

    def events(self, run_id):
        return list(self._records.record(run_id).audit)


def test_a_topic_grows_by_planned_partitions_and_every_other_wish_is_reported(port, create_topic, growth):
    topic = create_topic({0: (1, 2), 1: (2, 3)})
    looked_at = create_topic(laid_out := {0: (1, 2), 1: (2, 3), 2: (3, 1)})
    growth.trigger("grow", topic=topic, partitions=5, exclude_brokers=[6])
    growth.trigger("only-look", topic=looked_at, partitions=4, validate_only=True)
    growth.trigger("lower", topic=looked_at, partitions=2)
    growth.trigger("as-it-is", topic=looked_at, partitions=3)
    assert growth.wait("grow") == "success", growth.states("grow")
    after = replicas(port, topic)
    assert (after[0], after[1], len(after)) == ((1, 2), (2, 3), 5)
    assert all(6 not in r and len({(b - 1) % 3 for b in r}) == 2 for r in after.values())
    events = growth.events("grow")
    assert [e.step for e in events] == [
        "preflight_partition_count",
        "plan_placement",
        "create_partitions",
        "verify_partition_count",
    ]
    assert {(e.actor.requested_by, e.outcome) for e in events} == {("admin", "succeeded")}
    assert events[2].facts["created"] == {str(n): list(after[n]) for n in (2, 3, 4)}
    assert f"Keys map to other partitions of {topic} once it has 5 instead of 2" in growth.log(
        "grow", "create_partitions"
    )

    # Validated only: what would be added is in the log, nothing is.
    assert growth.wait("only-look") == "success", growth.states("only-look")
    skipped = {"create_partitions": "skipped", "verify": "skipped"}
    assert growth.states("only-look") == {"preflight": "success", "plan_placement": "success"} | skipped
    assert f"| {looked_at}-3 |" in growth.log("only-look", "plan_placement")
    assert replicas(port, looked_at) == laid_out

    # No increase: reported at once, and not retried.
    for run_id, reported in (
        ("lower", "asked for 2: Kafka cannot lower the count"),
        ("as-it-is", "has 3 partitions already, expected fewer than the 3 asked for"),
    ):
        assert growth.wait(run_id) == "failed"
        assert reported in growth.log(run_id, "preflight")
        assert len(growth.events(run_id)) == 1

    # Days later the whole run is cleared: the count is there, and it says so.
    growth.clear("grow")
    assert growth.wait("grow") == "success", growth.states("grow")
    assert replicas(port, topic) == after
    assert f"the partitions of {topic} were added at" in growth.events("grow")[6].summary
