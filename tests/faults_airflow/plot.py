"""From a seed to a plot: topics, moves, and what happens when; pure, so that a failing seed can be replayed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from tests.faults.plan import BROKERS, Scenario, Topic

from kafka_reassignment.model import Reassignment, Replicas
from kafka_reassignment.text import format_brokers

PARTITION_BYTES = 40_000_000
RATE_MB = 1.0
"""A new quota starts with about 11 s of credit (F39), so a copy of 40 MB takes more than 20 s at 1 MB/s."""


class Act(StrEnum):
    """What goes wrong, or what a person or another tool does."""

    KILL_SCHEDULER = "kill the scheduler and its running tasks"
    KILL_TRIGGERER = "kill the triggerer"
    KILL_TARGET = "kill a target broker"
    KILL_SOURCE = "kill a source broker"
    KILL_LEADER = "kill a leader"
    KILL_CONTROLLER = "kill the controller"
    KILL_IN_ELECTIONS = "kill a preferred leader while leaders are elected"
    STORE_UNREACHABLE = "make the record store unreachable"
    DELETE_LEADER_RATES = "delete every leader rate"
    DELETE_FOLLOWER_RATES = "delete every follower rate"
    DELETE_LISTS = "delete the lists of throttled replicas"
    LOWER_RATE = "lower a broker's rate by hand"
    FOREIGN_CANCEL = "another client cancels a move"
    FOREIGN_MOVE = "another client moves a partition"
    DELETE_TOPIC = "delete a topic"
    RERUN_OLDER_BATCH = "clear the whole run of a finished batch"
    RERUN_OLDER_TASK = "clear one task of a finished batch"
    MARK_BATCH_FAILED = "mark the run of the batch as failed"
    MARK_SENSE_SUCCESS = "mark sense_isr_catch_up as succeeded"
    STOP_AND_RESUME = "stop, then resume"
    STOP_AND_ROLL_BACK = "stop, then roll back"
    ROLL_BACK_AT_END = "roll back what was finished"
    SUPERSEDE = "supersede with another reassignment"
    CHANGE_RATE = "change the rate"
    CHANGE_LIMITS = "change the limits"


AT_END = frozenset({Act.ROLL_BACK_AT_END})
ENDINGS = frozenset({Act.STOP_AND_ROLL_BACK, Act.ROLL_BACK_AT_END, Act.SUPERSEDE})
"""Acts after which the partitions are to be elsewhere than at the first targets; one of them at most is in a plot."""

OF_OLDER_BATCHES = frozenset({Act.RERUN_OLDER_BATCH, Act.RERUN_OLDER_TASK})

FAULTS_OF_AN_ENDING = (
    Act.KILL_SCHEDULER,
    Act.KILL_TRIGGERER,
    Act.KILL_TARGET,
    Act.KILL_LEADER,
    Act.KILL_CONTROLLER,
    Act.DELETE_LEADER_RATES,
    Act.STORE_UNREACHABLE,
)
"""What strikes while a roll back or a successor copies."""


@dataclass(frozen=True, slots=True)
class Cue:
    """When an act happens: so many seconds after a task of a batch (or, without one, of the main run) has begun to run."""

    task: str
    batch: int | None
    seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:g} s into {self.task}" + (f" of batch {self.batch}" if self.batch else "")


@dataclass(frozen=True, slots=True)
class Beat:
    """One act at its cue. A breakage lasts ``seconds``; ``choice`` picks the broker, partition or task."""

    act: Act
    cue: Cue
    seconds: float = 0.0
    choice: int = 0

    def __str__(self) -> str:
        return f"{self.act}, {self.cue}" + (f", repaired after {self.seconds:g} s" if self.seconds else "")


@dataclass(frozen=True, slots=True)
class Plot:
    """Everything a run needs; the same seed gives the same. ``later`` are the targets of a successor."""

    scenario: Scenario
    beats: tuple[Beat, ...]
    later: tuple[Reassignment, ...]

    @property
    def partition_movements(self) -> int:
        """P: all in one batch where nothing needs a second one, since each batch takes most of a minute."""
        needs_two = any(beat.cue.batch == 2 or beat.act is Act.CHANGE_LIMITS for beat in self.beats)
        return 2 if needs_two else len(self.scenario.moves)

    @property
    def seed(self) -> int:
        """Of which it was made."""
        return self.scenario.seed

    def __str__(self) -> str:
        moves = (
            f"  {m.partition}: {format_brokers(m.current)} to {format_brokers(m.target)}" for m in self.scenario.moves
        )
        return "\n".join((f"seed {self.seed}", *moves, *(f"  {beat}" for beat in self.beats)))


def plot(seed: int) -> Plot:
    """Return the plot of a seed: the first act goes round, so that any 25 seeds meet every act; a second one is random."""
    rng = random.Random(f"faults on airflow {seed}")
    topics = tuple(_topic(rng, f"{name}-a{seed}") for name in ("orders", "payments"))
    moves = tuple(
        Reassignment(partition, current, _target(rng, current), PARTITION_BYTES)
        for topic in topics
        for partition, current in zip(topic.partitions, topic.replicas, strict=True)
    )
    scenario = Scenario(
        seed=seed,
        topics=topics,
        bystander=_topic(rng, f"quiet-a{seed}"),
        moves=moves,
        batches=(),
        replica_movements=1,
        rate_mb=RATE_MB,
        partition_bytes=PARTITION_BYTES,
        throttled_before=(),
        faults=(),
    )
    acts = tuple(Act)
    beats = [_beat(rng, acts[seed % len(acts)])]
    first = beats[0].act
    if first in ENDINGS:
        strike = rng.choice(FAULTS_OF_AN_ENDING)
        beats.append(
            Beat(
                strike, Cue("sense_isr_catch_up", 1, rng.choice((3.0, 8.0))), _repair(rng, strike), rng.randrange(1000)
            )
        )
    elif rng.random() < 0.6:
        second = rng.choice([a for a in acts if a is not first and a not in ENDINGS])
        beats.append(_beat(rng, second))
    later = tuple(Reassignment(m.partition, m.current, _target(rng, m.current), PARTITION_BYTES) for m in moves)
    return Plot(scenario, tuple(beats), later)


def _topic(rng: random.Random, name: str) -> Topic:
    factor = rng.choice((2, 3))
    return Topic(name, tuple(tuple(rng.sample(BROKERS, factor)) for _ in range(2)), min_insync=factor - 1)


def _target(rng: random.Random, current: Replicas) -> Replicas:
    """One replica on another broker; every other time the preferred leader changes too."""
    new = rng.choice([b for b in BROKERS if b not in current])
    kept = list(current)
    kept[rng.randrange(len(kept))] = new
    return tuple(kept)


def _beat(rng: random.Random, act: Act) -> Beat:
    choice = rng.randrange(1000)
    if act is Act.KILL_IN_ELECTIONS:
        return Beat(act, Cue("elect_leaders", None, 0.0), 8.0, choice)
    if act in AT_END:
        return Beat(act, Cue("report", None, 0.0), 0.0, choice)
    if act in OF_OLDER_BATCHES:
        return Beat(act, Cue("sense_isr_catch_up", 2, rng.choice((2.0, 6.0))), 0.0, choice)
    task = "sense_isr_catch_up"
    if act in {Act.KILL_SCHEDULER, Act.KILL_TARGET, Act.KILL_LEADER, Act.KILL_CONTROLLER, Act.STORE_UNREACHABLE}:
        task = rng.choice((task, task, "set_throttle", "submit_batch", "drop_old_replicas", "clear_throttle"))
    seconds = rng.choice((2.0, 6.0, 12.0)) if task == "sense_isr_catch_up" else 0.0
    batch = rng.choice((1, 1, 2))
    if act is Act.CHANGE_LIMITS:
        batch = 1  # they are refused once the last batch has begun
    return Beat(act, Cue(task, batch, seconds), _repair(rng, act), choice)


def _repair(rng: random.Random, act: Act) -> float:
    if act is Act.STORE_UNREACHABLE:
        return rng.choice((2.0, 6.0))
    return rng.choice((3.0, 12.0)) if act.name.startswith("KILL_") else 0.0
