"""Asset events, by which other DAGs start when a reassignment is over.

Airflow emits an event for each outlet of a task that succeeds. So an outlet is that of a task which is skipped, or
fails, unless the reassignment is over. And there is none for a batch that is held: its task waits. Notifiers tell
of that.
"""

from __future__ import annotations

from airflow.sdk import Asset, BaseOperator, Context

from kafka_reassignment.steps.base.context import RunContext

FINISHED = Asset(name="kafka_reassignment_finished", uri="kafka-reassignment://finished", group="kafka_reassignment")
STOPPED = Asset(name="kafka_reassignment_stopped", uri="kafka-reassignment://stopped", group="kafka_reassignment")


def announce(task: BaseOperator, context: Context, asset: Asset, run: RunContext) -> None:
    """Say in the asset's event which reassignment it is about; nothing where the task has no such outlet."""
    if asset in task.outlets:
        context["outlet_events"][asset].extra = {
            "cluster_id": run.record.cluster_id,
            "reassignment_id": run.record.reassignment_id,
            "job": str(run.request.job) if run.record.exists else None,
        }
