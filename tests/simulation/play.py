"""Playing a script in a world: actions at their moments, and what they need to know of the world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from tests.simulation import companions, damage, misfortunes, people, tools  # noqa: F401 - they register their actions
from tests.simulation.actions import Action, kind_of
from tests.simulation.activities import Fault
from tests.simulation.controller_state import State
from tests.simulation.coverage import Coverage, states_of
from tests.simulation.story import Story

from kafka_reassignment.errors import ClusterUnavailableError, RecordError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID

AUDITED = frozenset(
    {
        "preflight",
        "plan",
        "start_batches",
        "elect_leaders",
        "verify",
        "report",
        "set_throttle",
        "submit_batch",
        "drop_old_replicas",
        "clear_throttle",
    }
)
"""Tasks that leave an audit event for each try that ends well."""

AT_STATE = "@"
"""Begins the ``when`` of an action that is bound to states of ``coverage.STATES``, with `` & `` between them."""

TASK_RUNS = "a task runs"
"""A moment to be bound to, that is no state of ``coverage.STATES``."""

HORIZON = 4 * 3600.0
"""Seconds of virtual time in which a script happens; what is bound to a moment that never came is left out then."""


class Play:
    """A world, a script in it, and what is going on.

    ``met`` says of each action what it met; None where it found nothing to act on.
    """

    def __init__(
        self, world: Any, script: Sequence[Action], *, scenario: Any = None, coverage: Coverage | None = None
    ) -> None:
        self.world = world
        self.script = list(script)
        self.airflow = world.airflow
        self.ledger = world.ledger
        self.story = Story(world)
        self.coverage = coverage
        self.cluster = world.cluster
        self.elsewhere = world.cluster.another_client()
        """What other clients call the cluster by: faults of ours are not theirs."""
        self.met: dict[int, str | None] = {}
        self.dead: set[int] = set()
        self.restarted: dict[int, datetime] = {}
        """When brokers came back last: until then others led their partitions."""
        self.verified: dict[str, datetime] = {}
        """When reassignments were verified last: what happens later is nothing that they could see."""
        self._gone: set[int] = set(scenario.gone if scenario else ())
        self.deleted_topics: set[str] = set()
        self.touched: dict[TopicPartition, datetime] = {}
        """When others made, moved or cancelled partitions last: a topic may be made again with fewer, and grow."""
        self.hands: set[tuple[str, str]] = set()
        """Runs that a person marked or deleted: their colour is that person's word."""
        self.beside: set[tuple[str, str]] = set()
        """Runs that a person started beside the chain: nobody leads them to an end."""
        self.cleared_alone: set[tuple[str, str, str]] = set()
        """Tasks that a person cleared without what follows: the colour of the run is that of its last tasks, as it was."""
        self.approved: dict[str, dict[TopicPartition, tuple[int, ...]]] = {}
        """Targets that were approved, of plans that were rewritten since."""
        self.damaged: dict[str, str] = {}
        """Objects of the record that were damaged for good, and how."""
        self.unreadable: set[str] = set()
        """All that are damaged now: the truth cannot be read from them either."""
        self.unlinked: set[tuple[str, int]] = set()
        """Folder and number of events that were written while nothing named the one before: their link does not fit."""
        self.unlocked_by_hand = False
        """A person has unlocked the cluster: that is no lock that was lost."""
        self.away_until = 0.0
        """The second at which people come back; the script does not end before."""
        self.calm_since: datetime = world.time.now
        """Since when nothing has been wrong with brokers, store and Airflow."""
        self._ongoing: dict[int, Callable[[], object]] = {}
        self._next = 0
        self._waiting: list[tuple[str, int, int, Action]] = []
        self._bound: list[tuple[str, int, Action]] = []
        self._starts: dict[str, int] = {}
        self._at_next_try: dict[str, list[Fault]] = {}
        self._tries: list[tuple[str, str, str, int]] = []
        self._unrecorded: set[tuple[Any, int]] = set()
        world.airflow.on_attempt = self._attempt
        world.airflow.on_report = self._report
        for name, number, broker in scenario.behind if scenario else ():
            partition = TopicPartition(name, number)
            self.for_a_while(120.0, lambda p=partition, b=broker: self.let_fetch(p, b))
        self.dead |= set(scenario.dead if scenario else ())
        for index, each in enumerate(self.script):
            if each.when is None:
                self.later(each.at, lambda i=index, a=each: self._do(i, a))
            elif each.when.startswith(AT_STATE):
                self._bound.append((each.when.removeprefix(AT_STATE), index, each))
            else:
                task, _, nth = each.when.partition(":")
                self._waiting.append((task, int(nth or 1), index, each))

    # ---------------------------------------------------------------- what actions use

    @property
    def state(self) -> State:
        """What the controller has now."""
        return self.ledger.state()

    @property
    def live(self) -> set[int]:
        """Brokers that are not fenced."""
        return self.ledger.live

    def runs(self, dag_id: str) -> list[Any]:
        """The runs of a DAG in the first Airflow, in order of their start."""
        return [run for (dag, _), run in self.airflow.runs.items() if dag == dag_id]

    def tis(self, airflow: Any = None) -> list[Any]:
        """All task instances of an Airflow, by default of the first one."""
        return [ti for run in (airflow or self.airflow).runs.values() for ti in run.tasks.values()]

    def stopped_reassignments(self) -> list[str]:
        """Reassignments that were stopped."""
        truth = self.world.truth
        return [r.run_id for r in self.runs(DAG_ID) if truth.is_stopped(r.run_id)]

    def reassign(self, conf: dict[str, Any]) -> Any:
        """Trigger a reassignment."""
        return self.airflow.trigger(DAG_ID, conf)

    def other(self, who: str, what: str, does: Callable[[], object]) -> str:
        """Let another client do something; where no broker answers it gives up."""
        before = self.state
        with self.ledger.another(who), suppress(ClusterUnavailableError):
            does()
        after = self.state
        for partition, now in after.partitions.items():
            was = before.partitions.get(partition)
            if was is None or (was.replicas, was.adding, was.removing) != (now.replicas, now.adding, now.removing):
                self.touched[partition] = self.world.time.now
        return f"{what}, by {who}"

    def keep_approved(self, reassignment_id: str) -> bool:
        """Remember what was approved, before it is changed; return whether anything was."""
        self.approved.setdefault(reassignment_id, dict(self.world.truth.targets(reassignment_id)))
        return bool(self.approved[reassignment_id])

    def hand_on(self, run: Any) -> None:
        """A person decides about a run's colour."""
        self.hands.add((run.dag_id, run.run_id))

    def later(self, seconds: float, do: Callable[[], object]) -> None:
        """Let something happen later."""
        self.world.time.after(seconds, do)

    def for_a_while(self, seconds: float, undo: Callable[[], object]) -> None:
        """Undo something after a while, or when everything is healed."""
        self._next += 1
        key = self._next
        self._ongoing[key] = undo
        self.later(seconds, lambda: self._undo(key))

    def disturb(self, seconds: float) -> None:
        """Something else is wrong for so many seconds."""
        self.for_a_while(seconds, lambda: None)

    def restart(self, broker: int) -> None:
        """Bring a broker back if it is dead, also one that would never have come back by itself."""
        if broker in self.dead or broker in self._gone:
            self.dead.discard(broker)
            self.restarted[broker] = self.world.time.now
            self._gone.discard(broker)
            self.cluster.restart(broker)

    def let_fetch(self, partition: TopicPartition, broker: int) -> None:
        """Let a replica that fell behind fetch again."""
        found = self.cluster._controller.partitions.get(partition)
        if found is not None and broker in found.held_back:
            found.held_back.discard(broker)
            self.cluster._replication.changed()

    def at_next_try(self, task: str, fault: Fault) -> None:
        """Let a fault strike the next try of a task."""
        self._at_next_try.setdefault(task, []).append(fault)

    def tries_that_ended_well(self) -> list[tuple[str, str, str, int]]:
        """Reassignment, run, task and number of each try that succeeded and should have left an audit event."""
        return self._tries

    def is_unrecorded(self, ti: Any) -> bool:
        """Whether the error of the last try of a task could not be written to the audit trail."""
        return (ti, ti.try_number) in self._unrecorded

    # ---------------------------------------------------------------- the script

    @property
    def is_calm(self) -> bool:
        """Whether nothing is wrong with brokers, store and Airflow."""
        return not self._ongoing and not self.dead

    def run(self) -> None:
        """Let the script happen."""
        end = self.world.time.seconds + HORIZON
        if self._bound:
            self._look_for_states()
        while self._is_to_go_on(end):
            if not self.world.time.has_events():
                break
            if self._only_moments_left():
                if self.world.run_until_idle(60.0) and self._only_moments_left():
                    break
                continue
            self.world.time.advance_to_next()

    def heal(self) -> None:
        """End every fault: from here on nothing goes wrong."""
        for key in sorted(self._ongoing):
            self._undo(key)
        for broker in sorted(self.dead):
            self.restart(broker)
        misfortunes.heal(self)
        self._at_next_try.clear()
        self._waiting.clear()
        self._bound.clear()
        self.calm_since = self.world.time.now
        self.world.time.stir()  # what pauses because nothing would happen looks when it would look anyway

    def _is_to_go_on(self, end: float) -> bool:
        now = self.world.time.seconds
        return now < self.away_until or (len(self.met) < len(self.script) and now < end)

    def _only_moments_left(self) -> bool:
        if self.world.time.seconds < self.away_until:
            return False
        return len(self._waiting) + len(self._bound) == len(self.script) - len(self.met)

    def _look_for_states(self) -> None:
        """After each event, let happen what is bound to a state that the world is in now."""
        earlier = self.world.time.after_event

        def look() -> None:
            earlier()
            if not self._bound:
                return
            found = states_of(self)
            if any(ti.state == "running" for ti in self.tis()):
                found.add(TASK_RUNS)
            for bound in [b for b in self._bound if found.issuperset(b[0].split(" & "))]:
                self._bound.remove(bound)
                _, index, each = bound
                self.later(each.at, lambda i=index, a=each: self._do(i, a))

        self.world.time.after_event = look

    def _undo(self, key: int) -> None:
        undo = self._ongoing.pop(key, None)
        if undo is not None:
            undo()
            if self.is_calm:
                self.calm_since = self.world.time.now

    def _do(self, index: int, each: Action) -> None:
        if index in self.met:
            return
        kind = kind_of(each.name)
        if self.coverage is not None:
            self.coverage.before(self, each)
        self.met[index] = met = kind.do(self, **each.arguments)
        if self.coverage is not None:
            self.coverage.after(each, met)
        self.story.tell(kind.group, f"{each.name}: {met}" if met else f"{each.name}: nothing to act on")

    def _attempt(self, attempt: Any) -> None:
        task = attempt.ti.task_id
        self._starts[task] = count = self._starts.get(task, 0) + 1
        attempt.faults += self._at_next_try.pop(task, [])
        for bound in [w for w in self._waiting if w[0] == task and w[1] == count]:
            self._waiting.remove(bound)
            _, _, index, each = bound
            self.later(each.at, lambda i=index, a=each: self._do(i, a))

    def _report(self, attempt: Any, outcome: Any) -> None:
        ti = attempt.ti
        run = ti.run
        if outcome.kind == "failed" and self._cannot_be_recorded(outcome.error):
            self._unrecorded.add((ti, ti.try_number))
        if outcome.kind == "success" and ti.task_id == "verify":
            self.verified[run.run_id] = self.world.time.now
        if outcome.kind == "success" and ti.task_id in AUDITED and run.dag_id in (DAG_ID, BATCH_DAG_ID):
            whose = run.conf.get("reassignment_id") or run.run_id
            self._tries.append((str(whose), run.run_id, ti.task_id, ti.try_number))

    def _cannot_be_recorded(self, error: BaseException | None) -> bool:
        """The store does not take it, or it is not known whose it is: the cluster was not even asked for its id."""
        faults = self.world.disk.faults
        if isinstance(error, RecordError):
            return faults.away or faults.full or bool(self.unreadable)
        return isinstance(error, ClusterUnavailableError) and self.cluster.calls[-1:] == ["describe_cluster"]
