"""What people do with the DAGs beside a reassignment, and how they stay away from all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.actions import action, number, one_of, pick
from tests.simulation.people import FLAG

from kafka_reassignment.advice import RUNNING
from kafka_reassignment_airflow.operators.maintenance_window import REQUESTS_VARIABLE
from kafka_reassignment_airflow.runs import (
    BATCH_DAG_ID,
    CANCEL_DAG_ID,
    DAG_ID,
    LIMITS_DAG_ID,
    MAINTENANCE_DAG_ID,
    PARTITION_COUNT_DAG_ID,
    RESUME_DAG_ID,
    SWEEP_DAG_ID,
    THROTTLE_DAG_ID,
)

if TYPE_CHECKING:
    from tests.simulation.play import Play

DAY = 24 * 3600.0

WINDOWS = one_of(None, None, ["daily 12:00-14:00"], ["daily 13:00-13:30"])

COMPANIONS = (
    CANCEL_DAG_ID,
    PARTITION_COUNT_DAG_ID,
    MAINTENANCE_DAG_ID,
    RESUME_DAG_ID,
    THROTTLE_DAG_ID,
    LIMITS_DAG_ID,
    SWEEP_DAG_ID,
)


@action("people", 1.5, topic=number, more=one_of(1, 1, 3), validate=one_of(False, False, False, True))
def grow_by_dag(play: Play, topic: int = 0, more: int = 1, validate: bool = False) -> str | None:
    """Give a topic more partitions by the DAG for it."""
    chosen = pick(sorted({p.topic for p in play.state.partitions}), topic)
    if chosen is None:
        return None
    wanted = sum(1 for p in play.state.partitions if p.topic == chosen) + more
    conf = {"topic": chosen, "partitions": wanted, "validate_only": validate}
    play.airflow.trigger(PARTITION_COUNT_DAG_ID, conf)
    return f"{chosen} to {wanted} partitions"


@action("people", 1, rate=one_of(2.0, 20.0), windows=WINDOWS, second=one_of(False, False, True))
def open_maintenance(
    play: Play, rate: float = 2.0, windows: list[str] | None = None, second: bool = False
) -> str | None:
    """Let the schedule of the maintenance windows be due; in two Airflows, both give their runs the same ids."""
    request: dict[str, Any] = {"job": "rebalance", "throttle_mb_per_second": rate}
    if windows:
        request |= {"windows": windows}
    play.airflow.variables[REQUESTS_VARIABLE] = [request]
    run_id = f"scheduled__{play.world.time.now:%Y-%m-%dT%H:%M:%S}"
    if second and len(play.world.airflows) == 1:
        play.world.second_airflow()
    begun = 0
    for airflow in play.world.airflows[: 2 if second else 1]:
        if (MAINTENANCE_DAG_ID, run_id) not in airflow.runs:
            airflow.trigger(MAINTENANCE_DAG_ID, {}, run_id, by=None, run_type="scheduled")
            begun += 1
    return f"{run_id} in {begun} Airflows" if begun else None


@action("people", 1, dag=one_of(*COMPANIONS), run=number, task=number, downstream=FLAG)
def clear_task_of_companion(
    play: Play, dag: str = CANCEL_DAG_ID, run: int = 0, task: int = 0, downstream: bool = False
) -> str | None:
    """Clear a task of a run of any other DAG, today's or an old one."""
    found = pick(play.runs(dag) or [r for each in COMPANIONS for r in play.runs(each)], run)
    if found is None:
        return None
    ti = pick(list(found.tasks.values()), task)
    assert ti is not None
    was = ti.state
    play.airflow.clear(found.dag_id, found.run_id, [ti.task_id], downstream=downstream)
    if not downstream:
        play.cleared_alone.add((found.dag_id, found.run_id, ti.task_id))
    return f"{ti.task_id} ({was}) of the {found.state} run {found.run_id}"


@action("people", 1.5, broker=number, rate=one_of(1.0, 3.0, 30.0), side=one_of("both", "leader", "follower"))
def change_rate_of_broker(play: Play, broker: int = 0, rate: float = 3.0, side: str = "both") -> str | None:
    """Change the rate of one broker, for what it sends, what it receives or both, while moves run."""
    chosen = pick(sorted(play.live), broker)
    if chosen is None:
        return None
    conf = {"throttle_mb_per_second": rate, "brokers": [chosen], "side": side}
    play.airflow.trigger(THROTTLE_DAG_ID, conf)
    return f"{side} of broker {chosen} to {rate:g} MB/s"


@action("people", 0.7, rate=one_of(2.0, 5.0), supersede=FLAG)
def second_airflow_reassigns(play: Play, rate: float = 2.0, supersede: bool = False) -> str | None:
    """Ask another Airflow with the same record for a reassignment of its own."""
    other = play.world.airflows[1] if len(play.world.airflows) > 1 else play.world.second_airflow()
    conf = {"job": "rebalance", "supersede": supersede, "throttle_mb_per_second": rate}
    return str(other.trigger(DAG_ID, conf).run_id)


@action("people", 0.5, roll_back=FLAG)
def second_airflow_stops(play: Play, roll_back: bool = False) -> str | None:
    """Stop what runs, from another Airflow with the same record."""
    other = play.world.airflows[1] if len(play.world.airflows) > 1 else play.world.second_airflow()
    other.trigger(CANCEL_DAG_ID, {"reassignment_id": RUNNING, "roll_back": roll_back})
    return "what runs"


@action("people", 0.5, days=one_of(3, 24), paused=one_of(None, BATCH_DAG_ID, DAG_ID))
def nobody_looks(play: Play, days: int = 3, paused: str | None = None) -> str | None:
    """Let people go away for days or weeks, perhaps with a DAG paused; tasks and faults go on without them."""
    if play.away_until > play.world.time.seconds:
        return None
    if paused is not None:
        play.airflow.pause(paused)
        play.for_a_while(days * DAY, lambda: play.airflow.pause(paused, paused=False))
    play.away_until = play.world.time.seconds + days * DAY
    play.later(days * DAY, lambda: None)
    return f"{days} days" + (f", {paused} paused" if paused else "")
