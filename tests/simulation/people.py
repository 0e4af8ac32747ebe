"""What people do to a reassignment at Airflow's console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.actions import MAIN_TASKS, action, number, one_of, pick

from kafka_reassignment.advice import RUNNING
from kafka_reassignment.errors import RecordUnavailableError
from kafka_reassignment.steps.batch import BATCH_STEPS
from kafka_reassignment_airflow.runs import (
    BATCH_DAG_ID,
    CANCEL_DAG_ID,
    DAG_ID,
    DESCRIBE_DAG_ID,
    LIMITS_DAG_ID,
    RESUME_DAG_ID,
    SWEEP_DAG_ID,
    THROTTLE_DAG_ID,
)

if TYPE_CHECKING:
    from tests.simulation.play import Play

FLAG = one_of(False, True)


@action("people", 4, run=number, task=one_of(*BATCH_STEPS), downstream=FLAG, only_failed=FLAG)
def clear_task_of_batch(
    play: Play, run: int = 0, task: str = "admit", downstream: bool = False, only_failed: bool = False
) -> str | None:
    """Clear one task of a batch's run, finished or not."""
    return _clear(play, BATCH_DAG_ID, run, task, downstream, only_failed)


@action("people", 2, run=number, task=one_of(*MAIN_TASKS), downstream=FLAG, only_failed=FLAG)
def clear_task_of_reassignment(
    play: Play, run: int = 0, task: str = "plan", downstream: bool = False, only_failed: bool = False
) -> str | None:
    """Clear one task of the run of a reassignment."""
    return _clear(play, DAG_ID, run, task, downstream, only_failed)


@action("people", 2, dag=one_of(BATCH_DAG_ID, BATCH_DAG_ID, DAG_ID, CANCEL_DAG_ID), run=number, only_failed=FLAG)
def clear_run(play: Play, dag: str = BATCH_DAG_ID, run: int = 0, only_failed: bool = False) -> str | None:
    """Clear a whole run, or what of it has failed."""
    found = pick(play.runs(dag), run)
    if found is None:
        return None
    play.airflow.clear(found.dag_id, found.run_id, only_failed=only_failed)
    return f"the {found.state} run {found.run_id}"


@action(
    "people",
    1,
    dag=one_of(BATCH_DAG_ID, BATCH_DAG_ID, DAG_ID),
    run=number,
    task=number,
    state=one_of("success", "failed"),
)
def mark_task(play: Play, dag: str = BATCH_DAG_ID, run: int = 0, task: int = 0, state: str = "success") -> str | None:
    """Mark a task that has not ended as success or failed."""
    found = pick([r for r in play.runs(dag) if not r.is_finished], run)
    if found is None:
        return None
    ti = pick([t for t in found.tasks.values() if t.state in {"running", "deferred", "up_for_retry"}], task)
    if ti is None:
        return None
    play.hand_on(found)
    play.airflow.mark(found.dag_id, found.run_id, ti.task_id, state)
    return f"{ti.task_id} of {found.run_id}"


@action(
    "people", 1, dag=one_of(BATCH_DAG_ID, BATCH_DAG_ID, DAG_ID), run=number, state=one_of("failed", "failed", "success")
)
def mark_run(play: Play, dag: str = BATCH_DAG_ID, run: int = 0, state: str = "failed") -> str | None:
    """Mark a run that has not ended as failed or success."""
    found = pick([r for r in play.runs(dag) if not r.is_finished], run)
    if found is None:
        return None
    play.hand_on(found)
    play.airflow.mark(found.dag_id, found.run_id, None, state)
    return f"run {found.run_id}"


@action("people", 0.5, dag=one_of(BATCH_DAG_ID, DAG_ID), run=number)
def delete_run(play: Play, dag: str = BATCH_DAG_ID, run: int = 0) -> str | None:
    """Delete a run from Airflow."""
    found = pick(play.runs(dag), run)
    if found is None:
        return None
    play.hand_on(found)
    play.airflow.delete(found.dag_id, found.run_id)
    return f"run {found.run_id}"


@action("people", 1, dag=one_of(BATCH_DAG_ID, DAG_ID, SWEEP_DAG_ID), seconds=one_of(60.0, 3600.0, 7200.0))
def pause_dag(play: Play, dag: str = BATCH_DAG_ID, seconds: float = 60.0) -> str | None:
    """Pause a DAG for a while."""
    play.airflow.pause(dag)
    play.for_a_while(seconds, lambda: play.airflow.pause(dag, paused=False))
    return dag


@action("people", 2, run=number, roll_back=FLAG, foreign=one_of(False, False, True), partition=one_of(-1, -1, 0, 1))
def stop(play: Play, run: int = 0, roll_back: bool = False, foreign: bool = False, partition: int = -1) -> str | None:
    """Stop what runs, or some of its partitions."""
    conf: dict[str, Any] = {"reassignment_id": RUNNING, "roll_back": roll_back, "foreign": foreign}
    if partition >= 0 and (chosen := pick(sorted(play.state.partitions), partition)):
        conf["partitions"] = [str(chosen)]
    play.airflow.trigger(CANCEL_DAG_ID, conf)
    return "all" if "partitions" not in conf else conf["partitions"][0]


@action("people", 2, run=number)
def resume(play: Play, run: int = 0) -> str | None:
    """Resume a reassignment that was stopped."""
    chosen = pick(play.stopped_reassignments(), run)
    if chosen is None:
        return None
    play.airflow.trigger(RESUME_DAG_ID, {"reassignment_id": chosen})
    return chosen


@action("people", 2, run=number, rate=one_of(2.0, 5.0, 20.0))
def roll_back(play: Play, run: int = 0, rate: float = 5.0) -> str | None:
    """Roll a reassignment back, finished or not."""
    found = pick(play.runs(DAG_ID), run)
    if found is None:
        return None
    play.reassign({"job": "roll_back", "roll_back_of": found.run_id, "throttle_mb_per_second": rate})
    return found.run_id


@action("people", 2, supersede=FLAG, rate=one_of(2.0, 5.0, 20.0), chance=number)
def reassign_again(
    play: Play, supersede: bool = True, rate: float = 5.0, chance: int = 0, require_approval: bool = False
) -> str | None:
    """Ask for another reassignment while the first runs, or after it; some of them wait for an approval, by chance too."""
    asked = {"job": "rebalance", "supersede": supersede, "throttle_mb_per_second": rate}
    play.reassign(asked | ({"require_approval": True} if require_approval or chance % 4 == 3 else {}))
    return "superseding" if supersede else "beside"


@action("people", 2, rate=one_of(1.0, 3.0, 30.0))
def change_rate(play: Play, rate: float = 3.0) -> str | None:
    """Change the rate while moves run."""
    play.airflow.trigger(THROTTLE_DAG_ID, {"throttle_mb_per_second": rate})
    return f"{rate:g} MB/s"


@action("people", 1.5, partitions=one_of(1, 2, 50), replicas=one_of(None, 1, 2))
def change_limits(play: Play, partitions: int = 1, replicas: int | None = None) -> str | None:
    """Change P and R while moves run."""
    play.airflow.trigger(LIMITS_DAG_ID, {"partition_movements": partitions, "replica_movements": replicas})
    return f"P {partitions}, R {replicas}"


@action("people", 1)
def sweep(play: Play) -> str | None:
    """Let the hourly sweep run."""
    play.airflow.trigger(SWEEP_DAG_ID, {}, by=None, run_type="scheduled")
    return "sweep"


@action("people", 0.5)
def describe(play: Play) -> str | None:
    """Look at what runs."""
    play.airflow.trigger(DESCRIBE_DAG_ID, {"watch_seconds": 0})
    return "what runs"


@action("people", 1, approve=one_of(True, True, False))
def answer(play: Play, approve: bool = True) -> str | None:
    """Answer the question whether a plan may run."""
    for run in play.runs(DAG_ID):
        if any(ti.state == "awaiting_input" for ti in run.tasks.values()):
            play.airflow.respond(run, approve=approve)
            return run.run_id
    return None


@action("people", 0.5, batch=one_of(1, 1, 2, 3), run=number)
def start_batch_by_hand(play: Play, batch: int = 1, run: int = 0) -> str | None:
    """Start a batch's DAG by hand, beside the chain."""
    found = pick(play.runs(DAG_ID), run)
    if found is None:
        return None
    conf = {"reassignment_id": found.run_id, "batch": batch, "kafka_conn_id": "kafka_default"}
    play.beside.add((BATCH_DAG_ID, play.airflow.trigger(BATCH_DAG_ID, conf).run_id))
    return f"batch {batch} of {found.run_id}"


@action("people", 0.5)
def release_lock(play: Play) -> str | None:
    """Unlock the cluster by the command line, while nothing runs that may have it."""
    owner = play.world.truth.owner()
    if owner is None or any(r.state in ("running", "queued") for r in play.runs(DAG_ID)):
        return None
    try:
        play.world.truth.release_lock(play.world.truth.cluster_id, owner, None, play.world.time.now)
    except RecordUnavailableError as error:
        return f"that of {owner}, in vain: {error}"
    play.unlocked_by_hand = True
    return f"that of {owner}"


@action("people", 0.5, rate=one_of(2.0, 5.0))
def second_airflow(play: Play, rate: float = 5.0) -> str | None:
    """Let another Airflow with the same record start a reassignment with the same run id."""
    other = play.world.airflows[1] if len(play.world.airflows) > 1 else play.world.second_airflow()
    found = pick(play.runs(DAG_ID), 0)
    if found is None or (DAG_ID, found.run_id) in other.runs:
        return None
    other.trigger(DAG_ID, dict(found.conf), found.run_id)
    return found.run_id


def _clear(play: Play, dag: str, run: int, task: str, downstream: bool, only_failed: bool) -> str | None:
    found = pick(play.runs(dag), run)
    if found is None:
        return None
    was = found.tasks[task].state
    play.airflow.clear(dag, found.run_id, [task], downstream=downstream, only_failed=only_failed)
    if not downstream:
        play.cleared_alone.add((dag, found.run_id, task))
    return f"{task} ({was}) of the {found.state} run {found.run_id}"
