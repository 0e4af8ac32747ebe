"""``python -m tests.faults_airflow``: run a range of seeds, one line each, and a summary."""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.seeds import SeedCommand
from tests.faults_airflow.plot import plot
from tests.faults_airflow.suite import AirflowSuite, Outcome
from tests.throttle_watch import Watched


def _line(outcome: Outcome) -> str:
    not_met = "".join(f", NOT MET: {beat}" for beat in outcome.not_met)
    return f"{len(outcome.advice)} acts of the operator, {outcome.watched}{not_met}"


def _total(outcomes: Sequence[Outcome]) -> str:
    not_met = sum(len(o.not_met) for o in outcomes)
    return f"{not_met} acts not met, {Watched.worst(o.watched for o in outcomes)}"


if __name__ == "__main__":
    SeedCommand("faults-airflow", AirflowSuite, plot, _line, _total).app(
        default="1-50",
        about="Run reassignments on a real Airflow while things go wrong; exit with 1 unless every seed passes.",
    )()
