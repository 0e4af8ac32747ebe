"""What goes wrong by itself: brokers, Airflow's processes, and the record store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.actions import MAIN_TASKS, action, number, one_of, pick
from tests.simulation.activities import Fault
from tests.simulation.disk import Faults
from tests.simulation.people import FLAG

from kafka_reassignment.errors import ClusterUnavailableError
from kafka_reassignment.steps.batch import BATCH_STEPS
from kafka_reassignment_airflow.runs import DAG_ID

if TYPE_CHECKING:
    from tests.simulation.play import Play

A_WHILE = one_of(1.0, 5.0, 20.0, 60.0, 600.0, 7200.0)
WRITES = one_of(
    "alter_reassignments", "alter_reassignments", "alter_configs", "alter_configs", "elect_preferred_leaders"
)
READS = one_of("describe_partitions", "list_reassignments", "describe_configs", "describe_cluster", "describe_log_dirs")

MOST_BROKERS = 9

# ---------------------------------------------------------------- brokers


@action("kafka", 4, broker=number, seconds=A_WHILE, fenced=FLAG)
def broker_dies(play: Play, broker: int = 0, seconds: float = 20.0, fenced: bool = True) -> str | None:
    """A broker dies and comes back; at first Kafka may not have noticed."""
    chosen = pick(sorted(play.live - play.dead), broker)
    if chosen is None or len(play.live - play.dead) <= 1:
        return None
    play.cluster.kill(chosen, fenced=fenced)
    play.dead.add(chosen)
    if not fenced:
        play.later(9.0, lambda: chosen in play.dead and play.cluster.kill(chosen))
    play.for_a_while(seconds, lambda: play.restart(chosen))
    return f"broker {chosen}"


@action("kafka", 2, partition=number, replica=number, seconds=one_of(1.0, 5.0, 30.0))
def replica_leaves_isr(play: Play, partition: int = 0, replica: int = 0, seconds: float = 5.0) -> str | None:
    """A live follower falls behind for a while, new ones included."""
    followers = [
        (p, b) for p, s in sorted(play.state.partitions.items()) for b in s.replicas if b in s.isr and b != s.leader
    ]
    moving = [(p, b) for p, b in followers if play.state.partitions[p].in_flight or (p, b) in play.ledger.copies]
    chosen = pick(moving or followers, partition + replica)
    if chosen is None:
        return None
    play.cluster.fall_behind(*chosen)
    play.for_a_while(seconds, lambda: play.let_fetch(*chosen))
    return f"{chosen[0]} on broker {chosen[1]}"


@action("kafka", 2, seconds=A_WHILE)
def cluster_away(play: Play, seconds: float = 20.0) -> str | None:
    """The cluster cannot be reached from Airflow."""
    play.cluster.cut_off()
    play.for_a_while(seconds, play.cluster.reconnect)
    return "the cluster"


@action("kafka", 3, call=WRITES, applied=one_of(None, None, 0, 1), times=one_of(1, 1, 2))
def write_is_lost(
    play: Play, call: str = "alter_reassignments", applied: int | None = None, times: int = 1
) -> str | None:
    """The answer of a write is lost, whether it took effect, or some of it, or nothing."""
    play.cluster.fail(call, ClusterUnavailableError("No answer within 30 s. Try again"), applied=applied, times=times)
    return call


@action("kafka", 1, call=READS, times=one_of(1, 2, 5))
def read_is_lost(play: Play, call: str = "describe_partitions", times: int = 1) -> str | None:
    """The answer of a read is lost."""
    play.cluster.fail(call, ClusterUnavailableError("No answer within 30 s. Try again"), applied=None, times=times)
    return call


@action("kafka", 1, seconds=one_of(0.05, 0.5, 2.0))
def metadata_stale(play: Play, seconds: float = 0.05) -> str | None:
    """Brokers show old metadata for a moment."""
    stale = play.cluster.stale_metadata()
    stale.__enter__()
    play.for_a_while(seconds, lambda: stale.__exit__(None, None, None))
    return "metadata"


@action(
    "kafka",
    2,
    seconds=one_of(0.5, 3.0, 20.0, 60.0),
    lost=one_of(None, None, "alter_reassignments", "alter_configs", "elect_preferred_leaders"),
    applied=one_of(None, 1),
    late=one_of(0.0, 1.0, 5.0),
)
def controller_changes(
    play: Play, seconds: float = 3.0, lost: str | None = None, applied: int | None = None, late: float = 0.0
) -> str | None:
    """Let there be no controller for a while: it takes no request; one on its way may still take effect, its answer lost.

    When there is one again, brokers show for a moment what was before.
    """
    cluster = play.cluster
    if lost is not None:
        cluster.fail(lost, ClusterUnavailableError("The controller is moving; no answer"), applied=applied, times=1)
    cluster.change_controller(seconds)

    def back() -> None:
        cluster.end_controller_change()
        if late:
            cluster.lag(late)

    play.for_a_while(seconds, back)
    play.disturb(seconds + late)
    return f"no controller for {seconds:g} s" + (f", metadata {late:g} s late after it" if late else "")


@action("kafka", 1, rack=one_of("a", "b", None))
def broker_joins(play: Play, rack: str | None = "a") -> str | None:
    """Let a new, empty broker join."""
    known = play.cluster._kafka.racks  # not by a call: faults that wait for one are not met here
    if play.cluster._is_cut_off or len(known) >= MOST_BROKERS:
        return None
    play.cluster.add_broker(max(known) + 1, rack)
    return f"broker {max(known) + 1}"


@action("kafka", 1, partition=number, rate=one_of(100_000, 900_000, 4_000_000), seconds=A_WHILE)
def producers_write(play: Play, partition: int = 0, rate: int = 900_000, seconds: float = 60.0) -> str | None:
    """Producers write to a partition for a while."""
    chosen = pick(sorted(play.state.partitions), partition)
    if chosen is None or not hasattr(play.cluster, "write"):
        return None
    play.cluster.write(chosen, rate)
    play.for_a_while(seconds, lambda: chosen in play.state.partitions and play.cluster.write(chosen, 0))
    return f"{chosen} at {rate} bytes per second"


# ---------------------------------------------------------------- Airflow's processes


@action(
    "airflow",
    3,
    task=one_of(*BATCH_STEPS, *BATCH_STEPS, *MAIN_TASKS),
    call=one_of(1, 2, 3, 4, 5, 6, 8, 12),
    kind=one_of("die_before", "die_after"),
)
def worker_dies(play: Play, task: str = "submit_batch", call: int = 1, kind: str = "die_after") -> str | None:
    """The worker of the next try of a task dies at its n-th call."""
    play.at_next_try(task, Fault(kind, call))
    return f"the next {task}"


@action(
    "airflow",
    2,
    task=one_of(*BATCH_STEPS),
    call=one_of(1, 1, 2, 3),
    kind=one_of("die_before", "die_after", "lose_answer"),
)
def worker_dies_at_write(play: Play, task: str = "submit_batch", call: int = 1, kind: str = "die_after") -> str | None:
    """The worker of the next try of a task dies at its n-th write, or loses the answer."""
    play.at_next_try(task, Fault(kind, call, writes_only=True))
    return f"the next {task}"


@action("airflow", 2, task=one_of(*BATCH_STEPS), call=one_of(1, 2, 4, 7), seconds=one_of(5.0, 60.0, 900.0))
def worker_hangs(
    play: Play,
    task: str = "clear_throttle",
    call: int = 2,
    seconds: float = 60.0,
    on: str = "",
    writes_only: bool = False,
) -> str | None:
    """The worker of the next try of a task stands still for a while before a call, of all or of those ``on`` a path."""
    play.at_next_try(task, Fault("pause_before", call, writes_only, seconds, on))
    return f"the next {task}"


@action("airflow", 2, number=number)
def worker_killed(play: Play, number: int = 0) -> str | None:
    """The worker of a running task is killed."""
    ti = pick([t for t in play.tis() if t.state == "running"], number)
    if ti is None:
        return None
    play.airflow.kill_worker(ti)
    return repr(ti)


@action("airflow", 1.5, number=number, seconds=one_of(5.0, 60.0))
def task_runs_twice(play: Play, number: int = 0, seconds: float = 60.0) -> str | None:
    """Airflow takes a running task for dead and starts it again, beside the first."""
    ti = pick([t for t in play.tis() if t.state == "running"], number)
    if ti is None:
        return None
    play.airflow.lose_heartbeat(ti, goes_on_for=seconds)
    return repr(ti)


@action("airflow", 1)
def triggerer_killed(play: Play) -> str | None:
    """The triggerer dies; another one takes over."""
    if not play.airflow.triggers:
        return None
    play.disturb(45.0)
    play.airflow.kill_triggerer()
    return "the triggerer"


@action("airflow", 1, seconds=one_of(20.0, 600.0, 7200.0))
def scheduler_away(play: Play, seconds: float = 20.0) -> str | None:
    """Let every scheduler be down for a while: nothing new starts, what runs goes on."""
    airflow = play.airflow
    paused = [dag for dag in airflow.shapes if dag not in airflow.paused]
    for dag in paused:
        airflow.pause(dag)

    def back() -> None:
        for dag in paused:
            airflow.pause(dag, paused=False)

    play.for_a_while(seconds, back)
    return f"for {seconds:g} s"


@action("airflow", 0.5, number=number)
def trigger_runs_twice(play: Play, number: int = 0) -> str | None:
    """Two triggerers run one trigger."""
    ti = pick([t for t in play.tis() if t.state == "deferred"], number)
    if ti is None:
        return None
    play.airflow.double_trigger(ti)
    return repr(ti)


# ---------------------------------------------------------------- the record store


@action("store", 2, seconds=A_WHILE)
def store_away(play: Play, seconds: float = 20.0) -> str | None:
    """The record store does not answer."""
    play.world.disk.faults.away = True
    play.for_a_while(seconds, lambda: setattr(play.world.disk.faults, "away", False))
    return "the store"


@action("store", 1, seconds=A_WHILE)
def store_full(play: Play, seconds: float = 20.0) -> str | None:
    """The record store takes no more."""
    play.world.disk.faults.full = True
    play.for_a_while(seconds, lambda: setattr(play.world.disk.faults, "full", False))
    return "the store"


@action("store", 1, pause=one_of(0.2, 2.0), seconds=A_WHILE)
def store_slow(play: Play, pause: float = 0.2, seconds: float = 60.0) -> str | None:
    """Each call of the record store takes a while."""
    play.world.disk.faults.seconds_per_call = pause
    play.for_a_while(seconds, lambda: setattr(play.world.disk.faults, "seconds_per_call", 0.0))
    return f"{pause:g} s a call"


@action("store", 1, lag=one_of(1.0, 5.0), seconds=A_WHILE)
def listing_lags(play: Play, lag: float = 1.0, seconds: float = 60.0) -> str | None:
    """Listings of an object store show new objects late."""
    if play.world.disk.kind == "local":
        return None
    play.world.disk.faults.listing_lag = lag
    play.for_a_while(seconds, lambda: setattr(play.world.disk.faults, "listing_lag", 0.0))
    return f"{lag:g} s"


@action("store", 1.5, losing=one_of("names", "contents"))
def power_cut(play: Play, losing: str = "names") -> str | None:
    """The power of the machine with the record and the workers goes: what was not flushed is lost."""
    if play.world.disk.kind != "local":
        return None
    for airflow in play.world.airflows:
        for ti in play.tis(airflow):
            if ti.state == "running":
                airflow.kill_worker(ti)
        airflow.kill_triggerer()
    play.disturb(60.0)
    lost = play.world.disk.power_cut(losing)  # type: ignore[arg-type]
    return f"{len(lost)} files changed"


@action("store", 0.7, run=number)
def plan_rewritten(play: Play, run: int = 0) -> str | None:
    """A person with access to the store replaces a plan that was approved by another one, whose hashes fit each other."""
    found = pick([r for r in play.runs(DAG_ID) if play.world.truth.targets(r.run_id)], run)
    if play.unreadable:
        return None
    if found is None or not play.keep_approved(found.run_id):
        return None
    play.world.truth.rewrite_plan(found.run_id)
    return f"the plan of {found.run_id}"


def heal(play: Play) -> None:
    """End every fault of the store at once."""
    play.world.disk.faults = Faults()
