"""The courses of the exhaustive pass: each comes to its end, and together they have every task of every DAG."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from tests.simulation.exhaustive import struck_tasks_and_ends

pytestmark = pytest.mark.simulation


@pytest.fixture(scope="module")
def without_faults():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(struck_tasks_and_ends).result()


def test_every_task_of_every_dag_is_struck_by_faults(without_faults):
    struck, all_tasks, _ = without_faults
    assert all_tasks - struck == set()


def test_every_course_ends_as_it_must_without_a_fault(without_faults):
    _, _, ends = without_faults
    assert {name: what for name, what in ends.items() if what} == {}
