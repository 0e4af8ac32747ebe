"""Telling people: once for each thing that happens to a reassignment, through Airflow's own notifiers.

Which notifiers, ``[kafka_reassignment] notifiers`` says. Nobody is told where it is empty. A notifier that fails is
logged and changes nothing of the step; it is tried again when the task runs again, and the others are not.
"""

from __future__ import annotations

import contextvars
import json
import logging
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from enum import StrEnum
from threading import Thread
from typing import Any

from airflow.sdk import BaseNotifier, Context
from airflow.sdk.exceptions import AirflowFailException
from pydantic import BaseModel, ConfigDict, ImportString, TypeAdapter

from kafka_reassignment.advice import RUNNING, Correct
from kafka_reassignment.errors import (
    BatchIncompleteError,
    InvalidRequestError,
    ReassignmentError,
    RecordError,
    StoppedError,
    ThrottleInUseError,
)
from kafka_reassignment.record.record import Record
from kafka_reassignment_airflow.hooks.record import record_store
from kafka_reassignment_airflow.provider_info import SECTION
from kafka_reassignment_airflow.runs import ABOUT_OTHERS, MAINTENANCE_DAG_ID, reassignment_of_run, task_name
from kafka_reassignment_airflow.settings import setting
from kafka_reassignment_airflow.urls import Opened, list_url, page_url

log = logging.getLogger(__name__)

LONGEST_TEXT = 2_000
"""Characters of a text that are sent."""

BEGINNING = 500
"""Of them, those that are kept of the beginning of a longer text: its end has the next step."""

SEND_SECONDS = 30
"""How long a notifier may take for one message: some have no timeout of their own, and a step waits for them."""


class Happened(StrEnum):
    """What people are told of."""

    APPROVAL_WANTED = "approval_wanted"
    HELD = "held"
    RESUMED = "resumed"
    FAILED = "failed"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Message:
    """What a notifier's templates see as ``told``: ``{{ told.subject }}``, ``{{ told.text }}``, ``{{ told.link }}``.

    ``reassignment_id`` is empty where there is no reassignment yet, or nobody can tell which one; the link is then to
    the list of all.
    """

    event: Happened
    reassignment_id: str
    subject: str
    text: str
    link: str


class ConfiguredNotifier(BaseModel):
    """One entry of the setting: a notifier of any provider, its arguments, and of what it tells."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)  # which may have a token

    classpath: ImportString[Any]
    kwargs: Mapping[str, Any] = {}
    events: tuple[Happened, ...] = tuple(Happened)


_ENTRIES: TypeAdapter[list[dict[str, Any]]] = TypeAdapter(
    list[dict[str, Any]], config=ConfigDict(hide_input_in_errors=True)
)

SUBJECTS: Mapping[Happened, str] = {
    Happened.APPROVAL_WANTED: "Approval wanted: {what}",
    Happened.HELD: "Held: {what}",
    Happened.RESUMED: "Goes on: {what}",
    Happened.FAILED: "Failed: {what}",
    Happened.FINISHED: "Finished: {what}",
}


def tell(record: Record, context: Context, event: Happened, text: str, *, what: str = "", once: str) -> None:
    """Tell people, unless they have been told.

    Args:
        record: of the reassignment; it remembers what was told.
        context: of the task.
        event: what has happened.
        text: one or two sentences, with the next step where there is one.
        what: it has happened to; by default the reassignment.
        once: names this event among those of its kind, such as ``batch 3``.
    """
    given = configured()
    if not given:
        return
    try:
        message = message_of(event, Opened(record.cluster_id, record.reassignment_id), text, what)
        if record.has_file(_note_to_all(event, once)):
            return
        for entry, note in _notes(given, event, once):
            if not record.has_file(note) and _has_taken(entry, context, message):
                record.write_file(note, text.encode())
    except (RecordError, InvalidRequestError) as error:
        log.warning("Nobody is told that %s %s: %s", record.reassignment_id, event, error)


def was_told(record: Record, event: Happened, once: str) -> bool:
    """Whether people were told of it, through one notifier at least."""
    try:
        notes = (_note_to_all(event, once), *(note for _, note in _notes(configured(), event, once)))
        return any(record.has_file(note) for note in notes)
    except InvalidRequestError:
        return False


def _note_to_all(event: Happened, once: str) -> str:
    """Return the file of the record by which an earlier version says that all notifiers took a message."""
    return f"told {event} {once}"


def _notes(given: str, event: Happened, once: str) -> list[tuple[dict[str, Any], str]]:
    """Return each notifier with the file of the record that says that it took a message.

    A notifier is known by its class, and by its place among those of the class.

    Raises:
        InvalidRequestError: the setting cannot be read.
    """
    if not given:
        return []
    seen: Counter[str] = Counter()
    notes: list[tuple[dict[str, Any], str]] = []
    for entry in entries(given):
        classpath = str(entry.get("classpath", ""))
        seen[classpath] += 1
        notes.append((entry, f"{_note_to_all(event, once)} {classpath} {seen[classpath]}"))
    return notes


def tell_failure(context: Context) -> None:
    """Tell people that a task has failed for good: an ``on_failure_callback``, also for a DAG of your own.

    Airflow calls it once for each last try, so a task that fails again after it was cleared is told again. A stop by a
    person is no failure: neither what ends because of it, nor that the batch's throttle is not cleared, or the batch
    not at its target. Nor is the last task of a batch that only repeats what failed before it.
    """
    given = configured()
    if not given:
        return
    error = context.get("exception")
    cause = error.__context__ if isinstance(error, AirflowFailException) else error
    ti, run_id = context["ti"], str(context["dag_run"].run_id)
    if isinstance(cause, StoppedError) or (
        isinstance(cause, BatchIncompleteError) and task_name(ti.task_id) == "start_next_batch"
    ):
        return
    about = _about(context)
    if isinstance(cause, (ThrottleInUseError, BatchIncompleteError)) and _was_stopped(about, context):
        return
    what = f"{ti.dag_id}.{ti.task_id} of {run_id}"
    text = str(error or "the task ended without an error of its own: see its log")
    try:
        message = message_of(Happened.FAILED, about, text, what)
        for entry in entries(given):
            _has_taken(entry, context, message)
    except InvalidRequestError as wrong:
        log.warning("Nobody is told that %s has failed: %s", what, wrong)


def _was_stopped(about: Opened, context: Context) -> bool:
    """Whether a task of a batch is about a reassignment that was stopped: the stop settles the moves, and clears the throttle."""
    if getattr(context.get("task"), "batch_of_event", None) is None or not about.cluster_id:
        return False
    try:
        return record_store().record(*about).stopped() is not None
    except ReassignmentError as error:
        log.warning("Whether %s was stopped is not known: %s", about.reassignment_id, error)
        return False


def _about(context: Context) -> Opened:
    """Return what a failed task is about, as far as that is known.

    What the task has opened is known for sure. Else it is what its params name, or those of its run; an order about
    what runs has the id of its first task's result there.
    """
    dag_id, task = context["ti"].dag_id, context.get("task")
    if dag_id == MAINTENANCE_DAG_ID or not getattr(task, "is_of_reassignment", True):
        return Opened("", "")  # it opens reassignments, or looks after what is none
    if (opened := getattr(task, "opened", None)) is not None:
        return Opened(*opened)
    for named in (getattr(task, "reassignment_id", ""), (context.get("params") or {}).get("reassignment_id")):
        if isinstance(named, str | int) and str(named) not in {"", RUNNING, str(None)} and "{{" not in str(named):
            return Opened("", str(named))
    return Opened("", "" if dag_id in ABOUT_OTHERS else reassignment_of_run(dag_id, str(context["dag_run"].run_id)))


def message_of(event: Happened, about: Opened, text: str, what: str = "") -> Message:
    """Return what is sent; ``about`` may have an empty cluster, or no reassignment either."""
    subject = SUBJECTS[event].format(what=what or about.reassignment_id)
    link = page_url(about.reassignment_id, about.cluster_id) if about.reassignment_id else list_url()
    return Message(event, about.reassignment_id, subject, _shortened(text), link)


def _shortened(text: str) -> str:
    """Return a text without its middle where it is too long."""
    if len(text) <= LONGEST_TEXT:
        return text
    gap = " … "
    return text[:BEGINNING] + gap + text[BEGINNING + len(gap) - LONGEST_TEXT :]


def configured() -> str:
    """Return the setting; empty, with a warning, where it cannot be read: its command or secrets backend may be away."""
    try:
        return setting("notifiers")
    except Exception as error:  # noqa: BLE001 - of a backend of any kind; its text may have what the command has printed
        log.warning("Nobody is told: [%s] notifiers cannot be read (%s)", SECTION, type(error).__name__)
        return ""


def entries(given: str) -> list[dict[str, Any]]:
    """Return what the setting has, an entry for each notifier.

    Raises:
        InvalidRequestError: it is no list of these.
    """
    try:
        return _ENTRIES.validate_python(json.loads(given))
    except ValueError as error:
        raise _not_usable(error) from error


def notifier_of(entry: Mapping[str, Any], event: Happened) -> BaseNotifier | None:
    """Return a new notifier as an entry of the setting says; None where it tells nothing of this event.

    Raises:
        InvalidRequestError: it cannot be made. A class of any provider raises what it likes, as for a file that is
            missing.
    """
    try:
        one = ConfiguredNotifier.model_validate(entry)
        if event not in one.events:
            return None
        made = one.classpath(**one.kwargs)
        if not isinstance(made, BaseNotifier):
            raise TypeError(f"{one.classpath} is no notifier of Airflow")
    except Exception as error:
        raise _not_usable(error, f"{entry.get('classpath', 'an entry without a class')}: ") from error
    return made


def _not_usable(error: Exception, which: str = "") -> InvalidRequestError:
    return InvalidRequestError(
        f"[{SECTION}] notifiers cannot be used: {which}{str(error)[:200]}",
        Correct('correct the setting: a JSON list such as [{"classpath": "…", "kwargs": {…}}]'),
    )


def _has_taken(entry: Mapping[str, Any], context: Context, message: Message) -> bool:
    """Send a message through a notifier; return whether it took it. One that fails or hangs keeps no other one from it."""
    try:
        return _send_in_time(entry, context, message)
    except Exception:
        log.exception("%s did not take the message %r", entry.get("classpath"), message.subject)
        return False


def _send_in_time(entry: Mapping[str, Any], context: Context, message: Message) -> bool:
    """Send a message through one notifier; return whether it is for this event.

    Raises:
        TimeoutError: it has not taken it in time; its thread goes on, and ends with the process at the latest.
    """
    done: Future[bool] = Future()

    def send() -> None:
        try:
            notifier = notifier_of(entry, message.event)
            if notifier is not None:
                notifier({**context, "told": asdict(message)})
            done.set_result(notifier is not None)
        except Exception as error:  # noqa: BLE001 - it is raised where the end is waited for
            done.set_exception(error)

    # A daemon: the threads of a pool are waited for when the process ends.
    Thread(target=contextvars.copy_context().run, args=(send,), daemon=True).start()
    return done.result(timeout=SEND_SECONDS)
