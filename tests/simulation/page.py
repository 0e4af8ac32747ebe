"""I6 for the page: what the page and the list of reassignments say is what is.

They are read at chosen moments: when a run has ended, when something of the script has happened, and at the end; at
some of them (``EVERY``), because there are many seeds. While nothing is wrong with the record they are read as if the
store had no faults, and compared with the cluster, the runs of Airflow and what was asked for. While the store is away
or an object is damaged they are read as they are: they must show what can be read, or say plainly why they cannot.

Words used here:

* *said to be finished*: a batch in the list of finished ones, or a reassignment whose status is finished. It is judged
  when it is first seen, by where its partitions are then: later others may move them.
* *red*: the run of the current batch has failed, and it was neither marked nor cleared by a person.
* *in force because of us*: a rate or an entry that our calls set and that is there now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.simulation import seam
from tests.simulation.config_account import is_rate
from tests.simulation.controller_state import FOLLOWER_RATE, LEADER_RATE
from tests.simulation.invariants import POLL_SECONDS, SLACK_SECONDS, others_than, reassignment_is_done
from tests.simulation.listed import listed_wrongly
from tests.simulation.truth import HEADROOM
from tests.simulation.violations import Violation

from kafka_reassignment.errors import ClusterUnavailableError, ReassignmentError, RecordError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.catalogue import ReassignmentStatus
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.recorded_batch import whole_batch
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID, THROTTLE_DAG_ID, batch_run_id

if TYPE_CHECKING:
    from tests.simulation.play import Play

EVERY = 12
"""One of so many moments is looked at, others in each seed: a look at all of them takes a third of a seed's time."""

EVERY_END = 4
"""The end is looked at in one of so many seeds."""


@cache
def _web() -> Any:
    """Return the modules of the page, as they run in a simulated world."""
    from kafka_reassignment_airflow.web import html, kept, rows, views

    for module in (rows, kept, views):
        seam._replace(module)
    return rows, views, html


class PageReader:
    """Reads the pages of one play as one process of Airflow does, and judges them; each violation is kept once."""

    def __init__(self, play: Play) -> None:
        rows, views, _ = _web()
        self._play = play
        self._rows = rows.Rows(clock=lambda: play.world.time.seconds)
        self._pages = views.Pages(lambda: play.world.time.now)
        self._moment = (0, 0)
        self._number = play.world.seed
        self._finished: set[tuple[str, int]] = set()
        self._kinds: set[str] = set()
        self.violations: list[Violation] = []

    def look(self) -> None:
        """Read the pages where a run has ended, or the script has got on, since the last look."""
        moment = (sum(a.ends for a in self._play.world.airflows), len(self._play.met))
        if moment == self._moment:
            return
        self._moment = moment
        self._number += 1
        if self._number % EVERY == 0:
            self.read()

    def look_at_the_end(self) -> None:
        """Read the pages when all has ended, and make them for the browser."""
        if EVERY == 1 or self._play.world.seed % EVERY_END == 0:
            self.read(shows=True)

    def read(self, *, shows: bool = False) -> None:
        """Read the pages and judge them; ``shows``: make them for the browser too."""
        play = self._play
        faults = play.world.disk.faults
        if play.unreadable or faults.away or faults.listing_lag:
            self._judge(self._in_trouble())
        if not play.unreadable:
            with play.world.truth.undisturbed():
                self._judge(self._all(shows=shows))

    def _judge(self, found: Iterator[str]) -> None:
        for what in found:
            violation = Violation("I6", f"the page: {what}", self._play.world.time.now)
            if violation.kind not in self._kinds:
                self._kinds.add(violation.kind)
                self.violations.append(violation)

    # ---------------------------------------------------------------- while something is wrong with the record

    def _in_trouble(self) -> Iterator[str]:
        rows, views, _ = _web()
        truth = self._play.world.truth
        # The faults of the store strike, but a slow one takes no time: nobody waits for the page.
        with truth.undisturbed(replace(self._play.world.disk.faults, seconds_per_call=0.0)):
            for run in self._play.runs(DAG_ID):
                try:
                    views.Pages().page(truth.store, truth.cluster_id, run.run_id)
                except RecordError as error:
                    if len(str(error).split()) < MIN_WORDS:
                        yield f"an error says too little: {error}"
                except Exception as error:  # noqa: BLE001 - the server's own error page
                    yield f"{type(error).__name__} instead of a page, with {self._wrong()}: {error}"
            try:
                listed = rows.Rows(clock=lambda: 0.0).page(truth.store)
            except RecordError as error:
                if not self._play.world.disk.faults.away:
                    yield f"no list, though the store answers, with {self._wrong()}: {error}"
                return
            except Exception as error:  # noqa: BLE001
                yield f"{type(error).__name__} instead of the list, with {self._wrong()}: {error}"
                return
            said = " ".join(listed.problems)
            for path in sorted(self._play.unreadable):
                if path.endswith("/request.json") and "/partition-count" not in path and path not in said:
                    yield f"the list does not name {path}, which is damaged"

    def _wrong(self) -> str:
        return ", ".join(sorted(self._play.unreadable)) or str(self._play.world.disk.faults)

    # ---------------------------------------------------------------- while the record is whole

    def _all(self, *, shows: bool) -> Iterator[str]:
        _, _, html = _web()
        truth, said_to_owe = self._play.world.truth, ""
        try:
            listed = {r.reassignment_id: r for r in self._rows.page(truth.store).rows}
            for record in truth.store.records(truth.cluster_id):
                if not record.exists:
                    said_to_owe += " ".join(record.journal().owed_texts())
                    continue
                page = self._pages.page(truth.store, truth.cluster_id, record.reassignment_id)
                said_to_owe += " ".join(page.owed)
                yield from self._of_list(page, listed.get(record.reassignment_id))
                yield from self._of_batches(page, record)
                yield from self._of_failure(page)
                yield from self._of_own_failure(page)
                yield from self._of_red_run(page)
                yield from self._of_status(page)
                yield from self._of_rate(page)
                yield from self._of_left_over(page)
                if shows:
                    template = html.templates().get_template("reassignment.html.j2")
                    yield from shown(page, template.render(part="live", again=5, **html.values_of(page)))
        except RecordError as error:
            if self._play.approved:  # a plan was altered
                return
            yield f"{type(error).__name__} though nothing is wrong with the record: {error}"
            return
        yield from self._of_configs(said_to_owe)
        if self._is_calm() and not self._play.approved:  # a plan that was altered is refused, here too
            yield from listed_wrongly(self._play)

    def _of_list(self, page: Any, row: Any) -> Iterator[str]:
        """The list says what the page says, but for the seconds for which it is kept."""
        own = page.row
        if row is None:
            if own.status is ReassignmentStatus.ACTIVE:
                yield f"{own.reassignment_id} is active, and not in the list"
        elif row.status != own.status and "active" in (row.status, own.status):
            yield f"{own.reassignment_id} is {own.status}, the list says {row.status}"

    def _of_batches(self, page: Any, record: Any) -> Iterator[str]:
        own, state, play = page.row, self._play.state, self._play
        if own.note is not None and own.batches and own.note.batch <= own.finished:
            yield f"what batch {own.note.batch} of {own.reassignment_id} does now is shown, though it is finished"
        withdrawn = set(page.withdrawn)
        for done in page.finished:
            if (own.reassignment_id, done.number) in self._finished:
                continue
            self._finished.add((own.reassignment_id, done.number))
            steps = whole_batch(RecordView(record), done.number).steps
            take_part = [s for s in steps if str(s.partition) not in {*done.left_out, *withdrawn}]
            there = [
                s for s in take_part if s.partition in state.partitions and s.partition.topic not in play.deleted_topics
            ]
            if len(there) > done.partitions:
                yield f"batch {done.number} has {len(there)} partitions, not {done.partitions}"
            for step in take_part:
                seen = state.partitions.get(step.partition)
                if (
                    seen is None
                    or step.partition.topic in play.deleted_topics
                    or self._moved_on(step.partition, page, done.number)
                ):
                    continue
                if seen.in_flight or set(seen.replicas) != set(step.reassignment.target):
                    yield f"batch {done.number} is said to be finished, but {step.partition} is at {list(seen.replicas)}"

    def _moved_on(self, partition: TopicPartition, page: Any, number: int) -> bool:
        """Whether others, a later batch or another reassignment have moved a partition."""
        play = self._play
        truth, own = play.world.truth, page.row.reassignment_id
        if truth.was_stopped(own):  # where a stop leaves it is judged by what the stop reports
            return True
        if partition in play.touched or (number and truth.last_asked(own).get(str(partition), 0) > number):
            return True
        owner = truth.owner()
        if owner not in (None, own) and partition in truth.targets(owner):  # also where its submission has no answer
            return True
        return any(str(partition) in truth.begun(other) for other in others_than(play, own))

    def _of_failure(self, page: Any) -> Iterator[str]:
        own, play = page.row, self._play
        number = own.finished + 1
        key = (BATCH_DAG_ID, batch_run_id(own.reassignment_id, number))
        run = next((a.runs[key] for a in play.world.airflows if key in a.runs), None)
        is_by_hand = key in play.hands or any(c[:2] == key for c in play.cleared_alone) or bool(play.beside)
        if own.status is not ReassignmentStatus.ACTIVE or run is None or is_by_hand:
            return
        failed = page.failed
        if own.stopped or (failed is not None and failed.batch is None):
            return  # of the cancel, or of the run of the reassignment: the latest of what is red
        ordered_at = play.world.truth.ordered_at(own.reassignment_id)
        if run.state == "failed" and failed is None and ordered_at is not None and run.ended_at < ordered_at:
            return  # of what was resumed only what has failed since counts, and no batch has been triggered since
        red = {ti.task_id: ti for ti in run.tasks.values() if ti.state == "failed"}
        if run.state == "failed":
            errors = {t: ti for t, ti in red.items() if isinstance(ti.error, ReassignmentError)}
            if failed is None and errors and not any(isinstance(ti.error, NOT_SHOWN) for ti in errors.values()):
                yield f"nothing of the failure of {next(iter(errors))}: {next(iter(errors.values())).message}"
            elif failed is not None and failed.step in errors and str(errors[failed.step].error) not in failed.summary:
                # What could not be recorded cannot be shown: the page has an earlier error of the step then.
                if not play.is_unrecorded(errors[failed.step]):
                    yield f"{failed.step} is red with: {errors[failed.step].message} The page says: {failed.summary}"
            elif failed is not None and failed.step not in red and not any(map(play.is_unrecorded, red.values())):
                yield f"{failed.step} is said to have failed, red are {sorted(red)}"
        elif failed is not None and run.tasks[failed.step].state in ("deferred", "success"):
            ti = run.tasks[failed.step]
            yield f"{failed.step} is said to have failed, and is {ti.state}"

    def _of_own_failure(self, page: Any) -> Iterator[str]:
        """A step of the reassignment's own run that is said to have failed has not ended well, in some Airflow that has the run."""
        own, failed = page.row, page.failed
        key = (DAG_ID, own.reassignment_id)
        is_by_hand = key in self._play.hands or any(c[:2] == key for c in self._play.cleared_alone)
        if failed is None or failed.batch is not None or own.stopped or is_by_hand:
            return
        states = {a.runs[key].tasks[failed.step].state for a in self._play.world.airflows if key in a.runs}
        if states and states <= {"deferred", "success"}:
            yield f"{failed.step} is said to have failed, and is {' and '.join(sorted(states))}"

    def _of_red_run(self, page: Any) -> Iterator[str]:
        """Where the run of a reassignment is red, its page has the message of the task that failed."""
        key = (DAG_ID, page.row.reassignment_id)
        run = next((a.runs[key] for a in self._play.world.airflows if key in a.runs), None)
        if run is None or run.state != "failed" or key in self._play.hands:
            return
        said = [event.summary for event in page.audit.events]
        for ti in run.tasks.values():
            is_shown = isinstance(ti.error, ReassignmentError) and not isinstance(ti.error, NOT_SHOWN)
            is_outside = ti.task_id == "preflight" or "is paused" in ti.message  # refused before the record is opened
            if ti.state == "failed" and is_shown and not is_outside and not any(str(ti.error) in text for text in said):
                yield f"nothing of the failure of {ti.task_id}: {ti.message}"

    def _of_status(self, page: Any) -> Iterator[str]:
        own, play = page.row, self._play
        key = (own.reassignment_id, 0)
        run = next((a.runs.get((DAG_ID, key[0])) for a in play.world.airflows), None)
        if own.status is not ReassignmentStatus.FINISHED or key in self._finished or run is None:
            return
        self._finished.add(key)
        if play.touched or any(play.world.truth.begun(other) for other in others_than(play, own.reassignment_id)):
            return  # others may have moved it since
        if play.world.truth.owner() not in (None, own.reassignment_id):
            return  # another one may, though its submission has no answer
        if run.ended_at is None or play.world.time.now - run.ended_at > A_LOOK:
            return
        for violation in reassignment_is_done(play, run, at=run.ended_at):
            yield f"{own.reassignment_id} is said to be finished: {violation.what}"

    def _of_left_over(self, page: Any) -> Iterator[str]:
        """What a stop has left between where it was and where it was to go is named."""
        own, play = page.row, self._play
        if own.status is not ReassignmentStatus.STOPPED or any(
            r.state == "running" for a in play.world.airflows for r in a.runs.values()
        ):
            return
        named = " ".join([*page.left_out, *page.left_open, *page.withdrawn, *(e.summary for e in page.audit.events)])
        for move in play.world.truth.moves(own.reassignment_id):
            seen = play.state.partitions.get(move.partition)
            if (
                seen is None
                or seen.in_flight
                or self._moved_on(move.partition, page, 0)
                or str(move.partition) in named
            ):
                continue
            if set(seen.replicas) not in (set(move.current), set(move.target)):
                yield f"{move.partition} was left at {list(seen.replicas)}, and is not named"

    def _of_rate(self, page: Any) -> Iterator[str]:
        own, play = page.row, self._play
        request = play.world.truth.request(own.reassignment_id)
        if request is None or own.status is not ReassignmentStatus.ACTIVE:
            return
        most = page.bytes_per_second and page.bytes_per_second[1]
        if (most is None) is not request.unthrottled:
            yield f"the throttle is {most}, asked for was {request.throttle_bytes_per_second}"
        ours = play.ledger.copies
        copies = [r for r in play.ledger.copying() if ours[r].reassignment_id == own.reassignment_id]
        dags = {r.dag_id for a in play.world.airflows for r in a.runs.values() if r.state == "running"}
        if most is None or not copies or THROTTLE_DAG_ID in dags or not self._is_calm():
            return
        brokers = {
            FOLLOWER_RATE: {str(broker) for _, broker in copies},
            LEADER_RATE: {str(play.state.partitions[p].leader) for p, _ in copies if p in play.state.partitions},
        }
        for key in sorted(play.ledger.configs.our_rates):
            if key[0].name not in brokers[key[1]]:
                continue  # one that is still to be restored: nothing is copied under it
            value = play.state.configs.get(key)
            if value is not None and int(value) > most * HEADROOM + 1:
                yield f"the throttle per broker is {most}, but {key[0]} has {key[1]} {value}"

    def _of_configs(self, said_to_owe: str) -> Iterator[str]:
        """Every rate and entry that is in force because of us is to be restored by a reassignment."""
        play = self._play
        account, configs = play.ledger.configs, play.state.configs
        for key in sorted(account.our_rates):
            is_restored = configs.get(key) in account.acceptable.get(key, ())  # after a race with another client
            if configs.get(key) is not None and not is_restored and f"{_name(key)}: {key[1]}" not in said_to_owe:
                yield f"{key[0]} has {key[1]} {configs[key]} because of us, and nothing is said to be restored there"
        for key, entries in sorted(account.our_entries.items()):
            there = entries & set((configs.get(key) or "").split(","))
            if there and f"{_name(key)}: " not in said_to_owe and key[0].name not in play.deleted_topics:
                yield f"{key[0]} has {sorted(there)} of ours in {key[1]}, and nothing is said to be restored there"

    def _is_calm(self) -> bool:
        return self._play.is_calm and self._play.world.time.now - self._play.calm_since > A_LOOK


MIN_WORDS = 5
NOT_SHOWN = (RecordError, ClusterUnavailableError)
"""What keeps a step from its audit trail, or from knowing which one that is."""
A_LOOK = timedelta(seconds=POLL_SECONDS + SLACK_SECONDS)


def _name(key: Any) -> str:
    return f"{'broker' if is_rate(key) else 'topic'} {key[0].name}"


def shown(page: Any, html: str) -> Iterator[str]:
    """Yield what of a page is not in what the browser gets."""
    from markupsafe import escape

    said = [page.failed.summary] if page.failed else []
    said += [*page.withdrawn[:50], *page.left_out, *page.left_open, *page.problems, *page.owed[:50]]
    said += [str(page.row.status)] if page.row.status is not ReassignmentStatus.ACTIVE else []
    said += [page.lock.reassignment_id if page.lock else "not locked"]
    for text in said:
        if str(escape(text)) not in html:
            yield f"{text} is not shown"
