"""What the operators share whose reassignment another DAG run has started."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from kafka_reassignment.advice import RUNNING, Correct
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment_airflow.base import ReassignmentStepOperator
from kafka_reassignment_airflow.runs import roll_back_run_id

NONE_NAMED = (None, "", RUNNING)
"""What names no reassignment: whatever runs is meant."""


class RunningReassignmentOperator(ReassignmentStepOperator):
    """A step about a reassignment that another DAG run has started.

    :param reassignment_id: its run id (templated). Empty, the default, or ``running``: the reassignment that has the
        lock of the cluster, and this DAG run where none has.
    """

    def __init__(self, *, reassignment_id: str = "", **kwargs: Any) -> None:
        super().__init__(reassignment_id=reassignment_id, **kwargs)
        self._is_a_result = not isinstance(reassignment_id, str) or "xcom" in reassignment_id

    @property
    def named_id(self) -> str | None:
        """The id that is given; None where whatever runs is meant.

        Raises:
            InvalidRequestError: the id is the result of an earlier task, which has none.
        """
        found = self.reassignment_id  # a native template makes a number of digits, such as 0
        if found == str(None) or (found is None and self._is_a_result):
            raise InvalidRequestError(
                f"The task before {self.task_id} has no result that says which reassignment is meant, expected its id: it was "
                "marked, or its result was deleted",
                Correct("rerun the tasks of this run from the first one on"),
            )
        return None if found in NONE_NAMED else str(found)

    def which_reassignment(self, store: RecordStore, cluster_id: str, context: Context) -> str:
        """Return the id given, that of the lock's owner, or this run's.

        Raises:
            InvalidRequestError: the id is the result of an earlier task, which has none.
        """
        if (named := self.named_id) is not None:
            return named
        owner = store.lock_owner(cluster_id)
        return owner.reassignment_id if owner else context["dag_run"].run_id


class OrderOperator(RunningReassignmentOperator):
    """A step that changes what a running reassignment does. Cleared later, it changes none that has begun or was resumed since.

    One that the task's own DAG run has begun is meant at any time. The run of another DAG on the same schedule has the
    same id, and is another one.
    """

    def which_reassignment(self, store: RecordStore, cluster_id: str, context: Context) -> str:
        """Return the id given, that of the lock's owner, or this run's.

        Raises:
            InvalidRequestError: the owner has the lock since this run was triggered, so it is not the one that was
                meant; or none has it, and another DAG has begun a reassignment of this run's id; or the id is the
                result of an earlier task, which has none.
        """
        if (named := self.named_id) is not None:
            return named
        asked, own = context["dag_run"].run_after, str(context["dag_run"].run_id)
        owner = store.lock_owner(cluster_id)
        if owner is None or owner.reassignment_id == own:
            began = store.record(cluster_id, own).audit.dag_that_began()
            if began in {"", self.dag_id}:
                return own
            if owner is None:
                raise self._not_named(f"the one with the id of this run, {own}, is that of the DAG {began}")
        # A stop starts its roll back within that minute.
        if owner.was_taken_after(asked) or owner.reassignment_id == roll_back_run_id(own):
            raise self._not_named(
                f"{owner.reassignment_id}, which has the lock of the cluster, has it since {owner.since:%Y-%m-%d %H:%M:%S %Z}: "
                f"after this was asked, at {asked:%Y-%m-%d %H:%M:%S %Z}"
            )
        return owner.reassignment_id

    def _not_named(self, found: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"No reassignment is named, and {found}. Nothing was changed",
            Correct(f"trigger {self.dag_id} with the reassignment_id that is meant"),
        )
