"""The sweep of every cluster that the records show in debt, each by its own connection."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException
from jinja2 import Template
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, move
from upath import UPath

from kafka_reassignment.advice import Correct, ReleaseLock, Trigger, WaitUntil, sentence
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    ConnectionNotFoundError,
    RecordUnavailableError,
    is_worth_a_retry,
)
from kafka_reassignment.model import ConfigResource, TopicPartition
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment_airflow import context
from kafka_reassignment_airflow.hooks.reassignment import KafkaReassignmentHook
from kafka_reassignment_airflow.operators.sweep import SweepThrottlesOperator

pytestmark = pytest.mark.quick

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
RATE = "follower.replication.throttled.rate"


@pytest.fixture
def clusters(monkeypatch, tmp_path):
    """Clusters by connection; a connection that is not there is not found."""
    known = {}

    class Hook(KafkaReassignmentHook):
        def get_conn(self):
            if self.kafka_conn_id not in known:
                raise ConnectionNotFoundError(f"Kafka connection '{self.kafka_conn_id}' was not found")
            if known[self.kafka_conn_id] is None:
                raise ClusterUnavailableError(f"no broker of '{self.kafka_conn_id}' answers")
            return known[self.kafka_conn_id]

    monkeypatch.setattr(context, "KafkaReassignmentHook", Hook)
    monkeypatch.setenv("AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI", f"file://{tmp_path}")
    return known


@pytest.fixture
def owing(clusters, tmp_path):
    """A reassignment that set its throttle and whose run was deleted, in a cluster of its own."""

    def make(name):
        cluster = FakeCluster(cluster_id=name)
        cluster.create_topic("orders", [(1, 2)], size_bytes=1_000_000)
        run = Run(
            cluster,
            UPath(tmp_path),
            [[move("orders", 0, (1, 2), (1, 3))]],
            reassignment_id=f"of-{name}",
            kafka_conn_id=f"kafka_{name}",
        )
        run.do_all("admit", "set_throttle")
        run.store.release(name, f"of-{name}")
        clusters[f"kafka_{name}"] = cluster
        return run

    return make


def rate(run):
    values = run.configs("orders")[ConfigResource.broker(3)]
    return values[RATE].value if RATE in values else None


def sweep(**arguments):
    ti = SimpleNamespace(dag_id="kafka_throttle_sweep", task_id="sweep_throttles", try_number=1)
    dag_run = SimpleNamespace(run_id="scheduled__1", triggering_user_name=None, run_type="scheduled")
    task = SweepThrottlesOperator(task_id="sweep_throttles", **arguments)
    task.reassignment_id = Template(task.reassignment_id).render(
        dag=SimpleNamespace(dag_id=ti.dag_id), run_id="scheduled__1"
    )
    return task.execute({"ti": ti, "dag_run": dag_run})


def test_every_cluster_is_swept_by_the_connection_that_its_reassignment_recorded(owing):
    east, west = owing("east"), owing("west")
    assert rate(east)
    assert rate(west)
    assert sweep() == {
        "summaries": dict.fromkeys(("of-east", "of-west"), "earlier throttle values restored"),
        "left": [],
    }
    assert rate(east) is None
    assert rate(west) is None


def test_without_any_debt_no_connection_is_needed(clusters):
    assert sweep() == {"summaries": {}, "left": []}


def test_a_debt_whose_connection_is_gone_is_named_and_keeps_no_other_waiting(owing, clusters):
    east, west = owing("east"), owing("west")
    del clusters["kafka_east"]
    with pytest.raises(ConnectionNotFoundError) as failed:
        sweep()
    assert "Cluster east is owed throttle configs by of-east" in str(failed.value)
    assert "Kafka connection 'kafka_east' was not found" in str(failed.value)
    assert is_worth_a_retry(failed.value), "a secrets backend that is away for a moment looks the same"
    assert failed.value.advice == (
        Correct(
            "create an Airflow connection to cluster east, and trigger kafka_throttle_sweep with it as kafka_conn_id"
        ),
    )
    assert "west" not in str(failed.value)
    assert rate(east)
    assert rate(west) is None
    clusters["kafka_new"] = east.cluster
    assert sweep(kafka_conn_id="kafka_new")["summaries"] == {"of-east": "earlier throttle values restored"}
    assert rate(east) is None


@pytest.mark.parametrize(("owner", "is_red"), [("of-east", False), ("their sweep", True)])
def test_a_cluster_is_left_to_the_other_airflow_that_has_a_reassignment_at_work_there(
    owing, clusters, monkeypatch, owner, is_red
):
    """Both have their records in one store, and this one has no connection to that cluster."""
    monkeypatch.setenv("AIRFLOW__KAFKA_REASSIGNMENT__INSTANCE", "https://ours")
    east, west = owing("east"), owing("west")
    del clusters["kafka_east"]
    theirs = ClusterLock(reassignment_id=owner, since=START, requested_by="ann", instance="https://theirs")
    east.store.acquire("east", theirs)
    if is_red:
        with pytest.raises(ConnectionNotFoundError, match="Kafka connection 'kafka_east' was not found"):
            sweep()
    else:
        left_alone = "cluster east is locked by of-east of the Airflow https://theirs, whose sweep looks after it"
        assert sweep()["summaries"] == {"of-east": left_alone, "of-west": "earlier throttle values restored"}
    assert rate(east)
    assert rate(west) is None
    assert east.store.lock_owner("east") == theirs


@pytest.mark.parametrize("arguments", [{}, {"kafka_conn_id": "kafka_east"}])
def test_a_move_that_never_ends_makes_it_red_with_what_ends_it_and_keeps_no_other_waiting(owing, arguments):
    east, west = owing("east"), owing("west")
    orders = TopicPartition("orders", 0)
    east.cluster.hold_back(orders, 3, 4)
    east.cluster.alter_reassignments({orders: (3, 4)})
    east.cluster.alter_reassignments({orders: (2, 3)})  # F34
    east.cluster.catch_up_all()
    with pytest.raises(AirflowFailException) as red:
        sweep(**arguments)
    to_end = Trigger(
        "kafka_reassignment_cancel",
        {"kafka_conn_id": "kafka_east", "reassignment_id": "running", "partitions": ["orders-0"], "foreign": True},
    )
    assert str(red.value).endswith(sentence([to_end]))
    assert rate(east)
    assert bool(rate(west)) == bool(arguments)
    east.cluster.alter_reassignments({orders: None})
    assert sweep(**arguments)["left"] == []
    assert rate(east) is None


def test_a_connection_that_leads_to_another_cluster_now_sweeps_nothing_there(owing, clusters):
    east, west = owing("east"), owing("west")
    clusters["kafka_east"] = west.cluster
    with pytest.raises(AirflowFailException, match="connection 'kafka_east' leads to cluster west now"):
        sweep()
    assert rate(east)


def test_a_cluster_that_does_not_answer_is_retried(owing, clusters):
    owing("east")
    clusters["kafka_east"] = None
    with pytest.raises(ClusterUnavailableError, match="Cluster east is owed.*no broker of 'kafka_east' answers"):
        sweep()


@pytest.mark.parametrize("arguments", [{}, {"kafka_conn_id": "kafka_east"}])
def test_a_try_that_died_when_all_was_paid_leaves_no_lock_once_it_was_retried(owing, arguments):
    east = owing("east")
    sweep()
    its = "kafka_throttle_sweep__scheduled__1"
    lock = ClusterLock(reassignment_id=its, since=START, requested_by="the schedule")
    east.store.acquire("east", lock)  # what the try had before it died
    sweep(**arguments)
    assert east.store.lock_owner("east") is None


@pytest.mark.parametrize("owner", ["kafka_throttle_sweep__scheduled__2", "scheduled__1"])
@pytest.mark.parametrize("owes", [True, False])
def test_the_lock_of_another_sweep_is_left_and_of_a_reassignment_with_the_same_run_id(owing, owner, owes):
    east = owing("east")
    if not owes:
        sweep()
    lock = ClusterLock(reassignment_id=owner, since=datetime.now(UTC), requested_by="the schedule")
    east.store.acquire("east", lock)
    sweep()
    assert east.store.lock_owner("east") == lock
    assert bool(rate(east)) is owes


def test_the_lock_of_a_sweep_that_died_with_it_is_named_and_its_release_leads_on(owing):
    """Nobody else releases it: every later sweep would be green, and pay nothing."""
    east = owing("east")
    dead = "kafka_throttle_sweep__scheduled__2"
    east.store.acquire("east", ClusterLock(reassignment_id=dead, since=START, requested_by="the schedule"))
    assert swept_in_part().advice[:2] == (WaitUntil(f"{dead} has ended"), ReleaseLock("east", dead))
    assert rate(east)
    east.store.release("east", dead)
    sweep()
    assert not rate(east)


def damage(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"{")


def damage_lock(folder):
    damage(folder / "lock" / "000002.json")


def swept_in_part(**arguments):
    """Sweep, and return the error that is red at the end."""
    with pytest.raises(AirflowFailException) as failed:
        sweep(**arguments)
    return failed.value.__context__


def of_journal(path):
    return Correct(f"restore file://{path} from a copy, or install the version that wrote it; then rerun the step")


def test_a_damaged_lock_of_a_cluster_that_is_owed_nothing_keeps_no_other_waiting(owing, tmp_path):
    east, west = owing("east"), owing("west")
    damage_lock(tmp_path / "north")
    error = swept_in_part()
    assert rate(east) is None
    assert rate(west) is None
    assert "The lock of cluster north cannot be read" in str(error)
    assert error.advice == (ReleaseLock("north", number=2),)
    east.store.release_by_force("north", 2, at=START, by="ann")
    assert sweep() == {"summaries": {}, "left": []}


@pytest.mark.parametrize("arguments", [{}, {"kafka_conn_id": "kafka_east"}])
def test_a_damaged_lock_of_a_cluster_in_debt_is_to_be_released_and_needs_no_new_connection(owing, tmp_path, arguments):
    east, west = owing("east"), owing("west")
    damage_lock(tmp_path / "east")
    error = swept_in_part(**arguments)
    assert rate(east)
    assert (rate(west) is None) is not arguments
    assert error.advice[0] == ReleaseLock("east", number=2)
    assert str(error).count("kafka-reassignment lock release east --force --number 2") == 1
    assert "connection" not in str(error)
    east.store.release_by_force("east", 2, at=START, by="ann")
    sweep(**arguments)
    assert rate(east) is None


@pytest.mark.parametrize("arguments", [{}, {"kafka_conn_id": "kafka_east"}])
def test_a_damaged_journal_without_a_request_keeps_nothing_waiting_and_is_named(owing, tmp_path, arguments):
    east = owing("east")
    journal = tmp_path / "east" / "of-another-client" / "throttle-journal" / "000001.json"
    damage(journal)
    error = swept_in_part(**arguments)
    assert rate(east) is None
    assert str(error).count(f"file://{journal} is not a readable Journal") == 1
    assert error.advice == (of_journal(journal),)


def test_files_that_somebody_has_put_beside_the_folders_are_none_of_the_record(owing, tmp_path):
    east = owing("east")
    (tmp_path / "notes.txt").write_text("of the operator")
    (tmp_path / "east" / "notes.txt").write_text("of the operator")
    assert sweep() == {"summaries": {"of-east": "earlier throttle values restored"}, "left": []}
    assert rate(east) is None


def test_all_that_is_damaged_is_said_once_each_with_its_own_advice(owing, clusters, tmp_path):
    east, west, south = owing("east"), owing("west"), owing("south")
    del clusters["kafka_south"]
    damage_lock(tmp_path / "north")
    damage_lock(tmp_path / "east")
    journal = tmp_path / "west" / "of-another-client" / "throttle-journal" / "000001.json"
    damage(journal)
    with pytest.raises(ClusterUnavailableError) as failed:  # the connection may be found at the next try
        sweep()
    error = failed.value
    assert rate(east)
    assert rate(south)
    assert rate(west) is None
    for said in (
        "lock of cluster east cannot be read",
        "lock release east --force --number 2'. ",
        "lock of cluster north cannot be read",
        "lock release north --force --number 2'. ",
        f"{journal} is not a readable Journal",
        "Cluster south is owed throttle configs by of-south",
    ):
        assert str(error).count(said) == 1, said
    create = "create an Airflow connection to cluster south, and trigger kafka_throttle_sweep with it as kafka_conn_id"
    assert error.advice == (
        ReleaseLock("east", number=2),
        ReleaseLock("north", number=2),
        Correct(create),
        of_journal(journal),
    )


def test_what_is_damaged_waits_for_a_person_and_what_is_away_is_retried(owing, clusters, tmp_path):
    owing("east")
    clusters["kafka_east"] = None
    damage_lock(tmp_path / "north")
    with pytest.raises(ClusterUnavailableError, match=r"no broker of 'kafka_east'.*lock release north --force"):
        sweep()


def test_a_debt_whose_request_is_damaged_names_it(owing, tmp_path):
    owing("east")
    damage(tmp_path / "east" / "of-east" / "request.json")
    error = swept_in_part()
    assert f"Cluster east is owed throttle configs by of-east, which could not be restored: file://{tmp_path}" in str(
        error
    )
    assert str(error).count("request.json is not a readable RecordedRequest") == 1
    assert sweep(kafka_conn_id="kafka_east")["summaries"] == {"of-east": "earlier throttle values restored"}


def test_a_folder_that_the_store_does_not_hand_out_keeps_no_other_waiting(owing, tmp_path):
    east = owing("east")
    gone = tmp_path / "broken"
    gone.symlink_to(gone)  # each call ends in "Too many levels of symbolic links"
    with pytest.raises(RecordUnavailableError, match=f"Cannot list file://{gone}"):
        sweep()
    assert rate(east) is None


def test_a_store_that_does_not_answer_is_retried(clusters, monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.symlink_to(gone)
    monkeypatch.setenv("AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI", f"file://{gone}")
    with pytest.raises(RecordUnavailableError, match=f"Cannot list file://{gone}"):
        sweep()
