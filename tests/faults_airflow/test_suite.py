"""One plot on a real Airflow; ``make faults-airflow`` runs many."""

import pytest
from tests.faults_airflow.suite import AirflowSuite

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.slow]

DELETED_LISTS = 10
"""The seed of a plot in which the lists of throttled replicas are deleted while all copy."""


@pytest.mark.timeout(900)
def test_a_plot_ends_with_everything_as_it_must_be(tmp_path):
    with AirflowSuite(tmp_path) as suite:
        outcome = suite.run(DELETED_LISTS)
    assert outcome.ok, "\n".join((*outcome.problems, *outcome.lines))
    assert len(outcome.struck) == len(outcome.plot.beats)
