"""The first screen of a reassignment: five questions that a person has at night, answered from the record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Literal

from kafka_reassignment.advice import Rerun, Trigger, advice_from_data, sentence
from kafka_reassignment.decisions.progress import HELD_UP, Motion
from kafka_reassignment.record.audit import AuditEvent
from kafka_reassignment.record.catalogue import ReassignmentStatus
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.steps.base.context import way_on_from_stop
from kafka_reassignment.text import format_bytes, format_seconds
from kafka_reassignment.views.failure import step_in_words
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID, batch_run_id
from kafka_reassignment_airflow.web.forms import advised_forms, forms_of, lock_of_another
from kafka_reassignment_airflow.web.rows import RollBack
from kafka_reassignment_airflow.web.silence import Silence, silence_of
from kafka_reassignment_airflow.web.views import Page

COMPLETING = ("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
"""Once one of these steps is over, a batch copies nothing any more."""

MOST_REASONS = 3
"""Different reasons that the first screen has of what holds replicas up."""

DOING = "What is it doing?"
DONE = "When is it done?"
WAITS = "Why does it wait?"
STOP = "Is it safe to stop?"
NOW = "What do I do now?"

Tone = Literal["good", "run", "warn", "bad", "idle"]


@dataclass(frozen=True, slots=True)
class Link:
    """Where a step is done: a run, a task or a DAG in Airflow (``dag_id``), or a form of this page (``form``)."""

    words: str
    dag_id: str = ""
    run_id: str = ""
    task_id: str = ""
    form: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A question, its answer in a few words, and more. ``at`` is a moment that the answer begins with, where it is one."""

    question: str
    words: str
    tone: Tone
    more: tuple[str, ...] = ()
    at: datetime | None = None
    links: tuple[Link, ...] = field(default=())


def answers(page: Page) -> tuple[Answer, ...]:
    """Return the five answers, in the order in which one asks."""
    if page.row.status is ReassignmentStatus.UNKNOWN:
        return _not_known(page)
    if page.row.status is not ReassignmentStatus.ACTIVE:
        return _at_rest(page)
    return _doing(page), _done(page), _waits(page), _stop(page), _now(page)


def _not_known(page: Page) -> tuple[Answer, ...]:
    """The answers where the lock cannot be read: no step of any reassignment of the cluster goes on."""
    error = page.found.lock.error
    advice = sentence(error.advice) if error else ""
    return (
        Answer(DOING, "Not known: the lock of the cluster cannot be read", "bad", _last_event(page)),
        Answer(DONE, "Not before the lock can be read", "bad"),
        Answer(WAITS, "No step goes on without the lock", "bad"),
        Answer(STOP, "Not before the lock can be read", "bad"),
        Answer(NOW, advice or "Restore the lock from a copy", "bad"),
    )


def _at_rest(page: Page) -> tuple[Answer, ...]:
    """The answers about what has no lock, and so does nothing."""
    row = page.row
    doing, what_now = {
        ReassignmentStatus.FINISHED: (
            Answer(DOING, "Nothing: it is finished", "good", _last_event(page)),
            Answer(NOW, "Nothing", "good", ("Rolling back copies the data again.",)),
        ),
        ReassignmentStatus.STOPPED: (
            Answer(DOING, f"Nothing: it was stopped {row.stopped}", "warn", _last_event(page)),
            _after_a_stop(page),
        ),
        ReassignmentStatus.UNLOCKED: _half_way(page),
        ReassignmentStatus.ENDED: (
            Answer(DOING, "Nothing: it has ended without a report", "idle", _last_event(page)),
            Answer(NOW, "Nothing, or trigger a new one", "idle"),
        ),
    }[row.status]
    if page.failed:
        is_over = row.status is not ReassignmentStatus.UNLOCKED
        stands = "Nothing: it has ended" if is_over else "It stands, unlocked"
        doing = Answer(DOING, f"{stands}, and {step_in_words(page.failed)} has failed", "bad", _why(page.failed))
        what_now = _after_a_failure(page)
    if row.roll_back:  # also of what has ended red: what its failed step advises is overtaken
        doing = Answer(DOING, f"Nothing: {row.roll_back}", "warn", _last_event(page))
        what_now = _after_a_roll_back(page, row.roll_back)
    if page.owed:
        owed = "Throttle configs are still to be restored: kafka_throttle_sweep does that, every hour."
        if row.status is ReassignmentStatus.UNLOCKED:
            owed = "Its throttle is in place while it copies. kafka_throttle_sweep restores what nothing copies under."
        tone: Tone = "bad" if what_now.tone == "bad" else "warn"
        what_now = replace(what_now, tone=tone, more=(*what_now.more, owed))
    return doing, *_between(page), what_now


def _between(page: Page) -> tuple[Answer, Answer, Answer]:
    """The three answers in the middle: what may go on is not done, waits for the lock, and can be stopped."""
    if page.row.status is ReassignmentStatus.UNLOCKED:
        return (
            Answer(DONE, "Not known, because it has not the lock", "warn"),
            Answer(WAITS, "For its run to take the lock of the cluster", "warn"),
            _stop(page),
        )
    ended_at = page.latest.finished_at if page.latest else None
    return (
        Answer(DONE, "its last step" if ended_at else "It has ended", "idle", at=ended_at),
        Answer(WAITS, "It does not wait", "idle"),
        Answer(STOP, "It does not run", "idle"),
    )


def _half_way(page: Page) -> tuple[Answer, Answer]:
    """What is said of what has begun, is not over, and has not the lock: after a resume, or when its lock was released."""
    words = "Nothing yet: it was resumed, and has not the lock of the cluster"
    if page.submitted is not None:
        words = (
            f"Its moves may be in flight: batch {page.current} was submitted, and it has not the lock of the cluster"
        )
    elif page.found.record.run_commands.last_number() == 0:
        words = "Nothing: it has not the lock of the cluster any more"
    start = Link(f"its task {page.retake.task}", page.dag_id, page.row.reassignment_id, page.retake.task)
    wait, others = _wait_for_another(page)
    links = (*others, start, *_form_links(page, "resume", "stop"))
    if page.needs_approval:
        to_approve = Link("its task", page.dag_id, page.row.reassignment_id, "approve")
        links, how = (to_approve, *_form_links(page, "stop")), "Once it is approved, its first batch takes the lock."
        now = Answer(NOW, _sentence(f"{wait}approve or reject the plan"), "warn", (how,), links=(*others, *links))
        return Answer(DOING, f"{words}, and waits for a person", "warn", _last_event(page)), now
    how = f"A resume starts its run over by itself. Where it does not, clear {page.retake.task}. Where the run was deleted, resume it."
    return (
        Answer(DOING, words, "warn", _last_event(page)),
        Answer(NOW, _sentence(f"{wait}let it go on, or stop it"), "warn", (how,), links=links),
    )


def _wait_for_another(page: Page) -> tuple[str, tuple[Link, ...]]:
    """Return what begins the advice where another reassignment has the lock, and the link to it; nothing where none has."""
    other = lock_of_another(page.found)
    return (f"wait until {other} has ended, then ", (Link(other, DAG_ID, other),)) if other else ("", ())


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _form_links(page: Page, *names: str) -> Iterator[Link]:
    """The links to forms, as far as they are of use now."""
    forms = forms_of(page.found, page.row.roll_back)
    return (Link(f"{forms[name].title}…", form=name) for name in names if name in forms)


def _after_a_stop(page: Page) -> Answer:
    """What to do with a stopped one: where another has taken its place and moved something, its plan does not fit any more."""
    record = page.found.record
    stop = record.stopped() if page.row.status is ReassignmentStatus.STOPPED else None
    if stop is not None and record.has_moved_successor():
        words = "Ask again for what is still wanted of it, or roll it back"
        more = (f"{sentence(way_on_from_stop(record, stop))}.",)
        successor = Link(stop.superseded_by, DAG_ID, stop.superseded_by)
        return Answer(NOW, words, "warn", more, links=(successor, *_form_links(page, "roll-back")))
    wait, others = _wait_for_another(page)
    words = "resume it, or roll it back" if record.frozen_plan() is not None else "resume it"
    return Answer(NOW, _sentence(wait + words), "warn", links=(*others, *_form_links(page, "resume", "roll-back")))


def _after_a_roll_back(page: Page, roll_back: RollBack) -> Answer:
    """What to do with what was moved back, or is: one that stands half-way goes on itself, or another one moves back the rest."""
    those = Link(roll_back.by, DAG_ID, roll_back.by)
    some = "Some of its" if roll_back.is_left else "Its"
    more = (f"{some} replicas are not where this one has put them.",)
    links = tuple(_form_links(page, "roll-back"))
    words = "Look at the roll back, or roll back what is left" if links else "Look at the roll back"
    return Answer(NOW, words, "warn", more, links=(those, *links))


def _doing(page: Page) -> Answer:
    row, note = page.row, page.row.note
    last = _last_event(page)
    if page.failed:
        return Answer(DOING, f"It stands: {step_in_words(page.failed)} has failed", "bad")
    if row.stopped:
        return Answer(DOING, f"It settles its moves: stopped {row.stopped}", "warn", last)
    if note is not None:
        return _at_batch(page, note)
    if page.needs_approval:
        return Answer(DOING, "It waits for a person to approve the plan", "warn", last)
    if row.batches is None:
        words = "It makes the plan"
    elif page.current is None:
        words = "All batches are finished: it verifies and reports"
    elif page.submitted is None:
        words = f"It starts batch {page.current} of {row.batches}"
    elif page.latest is not None and page.latest.step in COMPLETING:
        words = f"It completes batch {page.current} of {row.batches}"
    else:
        words = f"It copies batch {page.current} of {row.batches}"
    return Answer(DOING, words, "warn" if silence_of(page) else "run", last)


def _at_batch(page: Page, note: ProgressNote) -> Answer:
    batch = f"batch {note.batch} of {page.row.batches}"
    if note.waits:
        return Answer(DOING, f"It holds {batch} back", "warn")
    if note.bytes_left is None:
        return Answer(DOING, f"It completes {batch}", "run", (note.text,))
    speed = f" at {format_bytes(note.bytes_per_second)}/s" if note.bytes_per_second is not None else ""
    counts = page.replicas.replicas_by_motion if page.replicas else {}
    more = ("New replicas: " + ", ".join(f"{n} {motion}" for motion, n in counts.items()),) if counts else (note.text,)
    held = _held_number(page)
    if held and held == sum(counts.values()) - counts.get(Motion.IN_SYNC, 0):
        return Answer(DOING, f"It waits for {_new_replicas(held)} of {batch}", "warn", more)
    return Answer(DOING, f"It copies {batch}: {format_bytes(note.bytes_left)} left{speed}", "run", more)


def _last_event(page: Page) -> tuple[str, ...]:
    return (f"Last step: {page.latest.step}, {page.latest.outcome}. {page.latest.summary}",) if page.latest else ()


def _done(page: Page) -> Answer:
    row, note = page.row, page.row.note
    if page.failed:
        return Answer(DONE, "Not before the failed step is run again", "bad")
    if row.stopped:
        return Answer(DONE, "When its moves are settled", "warn")
    silence = silence_of(page)
    left = note.seconds_left if note and not silence else None
    more = (f"Batch {page.current}: about {format_seconds(left)} left",) if left is not None else ()
    asked_at = page.latest_of_run.finished_at if page.latest_of_run and page.needs_approval else None
    if page.ends_at is not None and not silence and (asked_at or page.ends_at > page.now or note is not None):
        seconds = max(0.0, (page.ends_at - (asked_at or page.now)).total_seconds())
        has_windows = page.found.recorded_request.request.maintenance.has_windows
        within = ("With the maintenance windows.",) if has_windows else ()
        if asked_at:
            return Answer(DONE, f"{format_seconds(seconds)} after the approval", "warn", within)
        return Answer(DONE, f"in {format_seconds(seconds)}", "run", (*more, *within), at=page.ends_at)
    if page.current is None and row.batches is not None and not silence:
        return Answer(DONE, "In a few minutes", "run")
    if silence:
        why = str(silence)
    elif row.batches is None:
        why = "there is no plan yet"
    elif note is not None and note.waits:
        why = "the batch is held"
    else:
        is_held_up = _held_number(page) or (note is not None and note.partitions_blocked)
        why = "replicas do not get on" if is_held_up else "no batch was measured yet"
    return Answer(DONE, f"Not known, because {why}", "warn", more)


def _held_number(page: Page) -> int:
    """How many new replicas do not get on by themselves."""
    counts = page.replicas.replicas_by_motion if page.replicas else {}
    return sum(counts.get(motion, 0) for motion in HELD_UP)


def _held_up(page: Page) -> Iterator[str]:
    """What holds replicas up, those with the same reason together, and for how long the batch waits for them."""
    shown = [r for r in (page.replicas.replicas if page.replicas else ()) if r.motion in HELD_UP]
    alike: dict[str, list[str]] = {}
    for replica in shown:
        why = f"to broker {replica.broker}, {replica.motion}: {replica.reason}"
        alike.setdefault(why, []).append(str(replica.partition))
    rest = _held_number(page)
    for why, partitions in islice(alike.items(), MOST_REASONS):
        yield f"{partitions[0] if len(partitions) == 1 else len(partitions)} {why}"
        rest -= len(partitions)
    if rest:
        yield f"and {rest} more"
    note = page.row.note
    if note is not None and note.goes_on_at is not None:
        yield f"From {note.goes_on_at:%H:%M:%S} UTC on it goes on without these, if that helps"


def _why(failed: AuditEvent) -> tuple[str, ...]:
    """What a failed step says, without the advice at its end: that answers another question, and would push this off the first screen."""
    return (failed.summary.removesuffix(sentence(advice_from_data(failed.facts.get("advice")))).rstrip(),)


def _new_replicas(number: int) -> str:
    return f"{number} new replica{'s' if number > 1 else ''}"


def _waits(page: Page) -> Answer:
    note = page.row.note
    if page.failed:
        return Answer(WAITS, "A step has failed", "bad", _why(page.failed))
    if page.row.stopped or page.needs_approval:
        words = "For what is in flight or half-way to be settled" if page.row.stopped else "For an approval"
        return Answer(WAITS, words, "warn")
    if note is not None and note.waits:
        return Answer(WAITS, f"{len(note.waits)} reason{'s' if len(note.waits) > 1 else ''}", "warn", note.waits)
    if number := _held_number(page):
        words = f"{_new_replicas(number)} do{'' if number > 1 else 'es'} not get on"
        return Answer(WAITS, words, "bad", tuple(_held_up(page)))
    if page.left_open:
        those = tuple(f"{partition}: {why}" for partition, why in islice(page.left_open.items(), 3))
        return Answer(WAITS, f"It goes on without {page.left_open_number} partitions", "warn", those)
    silence = silence_of(page)
    return Answer(WAITS, f"Not known: {silence}" if silence else "It does not wait", "warn" if silence else "good")


def _stop(page: Page) -> Answer:
    note = page.row.note
    if page.row.stopped:
        return Answer(STOP, "It was stopped already", "warn", (f"Stopped {page.row.stopped}.",))
    if page.submitted is None or page.current is None:
        more = ("Finished batches stay as they are.",) if page.row.finished else ()
        words = "its current batch is not submitted" if page.row.finished else "nothing is submitted yet"
        return Answer(STOP, f"Yes: {words}", "good", more, links=(Link("Stop…", form="stop"),))
    lost = ""
    if page.plan is not None and note is not None and note.bytes_left is not None:
        copied = next((b.bytes_to_copy for b in page.plan.batches if b.number == page.current), 0) - note.bytes_left
        lost = f" {format_bytes(max(0, copied))} copied so far are thrown away."
    return Answer(
        STOP,
        f"Yes: batch {page.current} goes back",
        "good",
        (
            f"To old replicas that are alive and in sync, or on to the target.{lost}",
            "Finished batches stay. The throttle is restored.",
        ),
        links=(Link("Stop…", form="stop"),),
    )


def _now(page: Page) -> Answer:
    row = page.row
    if page.failed:
        return _after_a_failure(page)
    if row.stopped:
        return Answer(NOW, "Nothing: it settles by itself", "good")
    if page.needs_approval:
        to_approve = Link("its task", page.dag_id, row.reassignment_id, "approve")
        return Answer(NOW, "Approve or reject the plan", "warn", links=(to_approve,))
    if silence := silence_of(page):
        return _at_silence(page, silence)
    if _held_number(page):
        links = (*_links(page), Link("Stop…", form="stop"))
        more = ("Or stop it. What is copied stays meanwhile, under the throttle.",)
        return Answer(NOW, sentence(page.advice) or "Look at the brokers that receive", "warn", more, links=links)
    return Answer(NOW, "Nothing: it goes on by itself", "good")


def _at_silence(page: Page, silence: Silence) -> Answer:
    """What to look at where nobody is at work: who looks, or the run of the batch and the task that was at work last."""
    run = (Link(f"run of batch {page.current}", BATCH_DAG_ID, page.batch_run),) if page.batch_run else ()
    more = " Copies go on under the throttle." if page.submitted is not None else ""
    if silence.of_looks:
        words = f"The last look was {format_seconds(silence.seconds)} ago.{more}"
        return Answer(NOW, "See whether Airflow's triggerer runs", "warn", (words,), links=run)
    words = f"{str(silence).capitalize()}: a task may have been killed, or wait for a worker, or Kafka be away.{more}"
    own = Link("its run", page.dag_id, page.row.reassignment_id)
    links = (*run, *filter(None, (_task_of(page.latest),)), own)
    return Answer(NOW, "See whether its run goes on", "warn", (words,), links=links)


def _links(page: Page) -> Iterator[Link]:
    """Where the advice of the failed step is followed: the task to rerun, or the form to trigger, filled in."""
    forms = iter(advised_forms(page.found, page.advice))
    for item in page.advice:
        if isinstance(item, Trigger):
            yield Link(f"{item.dag_id}…", form=next(forms))
        elif isinstance(item, Rerun):
            yield _task(page, item)


def _task(page: Page, rerun: Rerun) -> Link:
    own, owner = _task_of(page.failed), rerun.reassignment_id or page.row.reassignment_id
    if own is not None and rerun == Rerun(own.task_id):
        return own  # one of a cancel is in the cancel's run
    is_own = owner == page.row.reassignment_id
    dag_id = page.dag_id if is_own else DAG_ID
    if rerun.batch is None:
        return Link(rerun.task, dag_id, owner, rerun.task)
    if is_own and page.is_in_one_run:
        return Link(f"{rerun.task} of batch {rerun.batch}", dag_id, owner, rerun.task)
    return Link(f"{rerun.task} of batch {rerun.batch}", BATCH_DAG_ID, batch_run_id(owner, rerun.batch), rerun.task)


def _task_of(event: AuditEvent | None) -> Link | None:
    """The task that has left an event; None where there is none, or it was no task's."""
    actor = event.actor if event else None
    return Link(actor.task_id, actor.dag_id, actor.run_id, actor.task_id) if actor and actor.task_id else None


def _after_a_failure(page: Page) -> Answer:
    """What the failed step advises; without a link that is followed by hand, beginning with its task."""
    links = tuple(_links(page)) or tuple(filter(None, (_task_of(page.failed),)))
    return Answer(NOW, sentence(page.advice) or "Look at the failed task", "bad", links=links)
