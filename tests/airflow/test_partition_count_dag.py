"""The DAG that raises a partition count, as Airflow parses it."""

import copy
from itertools import pairwise

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError

from kafka_lab.airflow import PROJECT
from kafka_reassignment.request import PartitionCountRequest

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def dag():
    bag = DagBag(str(PROJECT / "dags" / "partition_count_dag.py"))
    assert bag.import_errors == {}
    return bag.dags["kafka_partition_count"]


def filled(dag, given):
    params = copy.deepcopy(dag.params)
    params.update(given)
    return params.validate()


def test_its_steps_follow_each_other(dag):
    order = [t.task_id for t in dag.topological_sort()]
    assert order == ["preflight", "plan_placement", "create_partitions", "verify"]
    for before, after in pairwise(order):
        assert dag.get_task(after).upstream_task_ids == {before}


def test_its_form_has_every_field_of_the_request_and_no_other(dag):
    assert set(dag.params) == set(PartitionCountRequest.model_fields)


def test_its_form_and_its_request_have_the_same_defaults(dag):
    given = {"topic": "orders", "partitions": 8}
    request = PartitionCountRequest(**given)
    assert filled(dag, given) == request.model_dump() | {"exclude_brokers": None}
    assert request.exclude_brokers == ()


@pytest.mark.parametrize("given", [{"topic": "", "partitions": 8}, {"topic": "orders", "partitions": 1}, {}], ids=str)
def test_its_form_refuses_what_its_schema_can_tell(dag, given):
    with pytest.raises(ParamValidationError):
        filled(dag, given)
