"""The audit trail keeps every event, in order, and shows each alteration."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from upath import UPath

from kafka_reassignment.errors import RecordDamagedError, RecordUnavailableError
from kafka_reassignment.record import audit
from kafka_reassignment.record.audit import Actor, AuditEvent, AuditLog
from kafka_reassignment.record.objects import as_bytes

pytestmark = pytest.mark.quick
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def event(step: str) -> AuditEvent:
    return AuditEvent(
        sequence=0,
        previous_hash="",
        cluster_id="c",
        reassignment_id="r",
        step=step,
        batch=1,
        actor=Actor(),
        started_at=NOON,
        finished_at=NOON,
        outcome="succeeded",
        summary=step,
    )


def log_in(folder):
    return AuditLog(UPath(folder / "audit"), head=UPath(folder / "head.json"))


@pytest.fixture
def log(tmp_path):
    return log_in(tmp_path)


def test_events_keep_their_order_and_link_to_the_one_before(log):
    for step in ("admit", "set_throttle", "submit_batch"):
        log.append(event(step))
    assert [(e.sequence, e.step) for e in log] == [(1, "admit"), (2, "set_throttle"), (3, "submit_batch")]
    assert log.verify() == 3


def test_what_goes_on_beside_the_steps_hides_none_of_them_however_often(log, monkeypatch):
    steps = ["admit", *["reinstate_throttle"] * 3, "change_rate", *["keep_throttle", "clear_idle_throttle"] * 100]
    for step in steps:
        log.append(event(step))
    read, numbers = log._events.read, []
    monkeypatch.setattr(log._events, "read", lambda number: numbers.append(number) or read(number))
    assert [e.step for e in log.latest(40)] == ["change_rate", "admit"]
    assert numbers == [205, 5, 4, 1]
    assert log.verify() == 205


def test_an_event_of_an_earlier_version_that_does_not_say_what_it_follows_is_passed_over(log, tmp_path):
    for step in ("admit", "keep_throttle", "keep_throttle"):
        log.append(event(step))
    for place in (tmp_path / "audit").glob("*.json"):
        fields = json.loads(place.read_text())
        del fields["follows"]
        place.write_text(json.dumps(fields))
    assert [e.step for e in log_in(tmp_path).latest(40)] == ["admit"]


def test_two_writers_never_overwrite_each_other(tmp_path):
    one, other = log_in(tmp_path), log_in(tmp_path)
    one.append(event("a"))
    other.append(event("b"))
    one.append(event("c"))
    assert [e.step for e in other] == ["a", "b", "c"]


def test_an_altered_event_breaks_the_chain(log, tmp_path):
    for step in ("admit", "set_throttle"):
        log.append(event(step))
    first = tmp_path / "audit" / "000001.json"
    first.write_text(first.read_text().replace('"summary": "admit"', '"summary": "nothing"'))
    with pytest.raises(RecordDamagedError, match="Audit event 2 .* does not fit the one before it.*altered"):
        log.verify()


def test_an_event_that_was_damaged_and_restored_breaks_nothing(log, tmp_path):
    log.append(event("admit"))
    first = tmp_path / "audit" / "000001.json"
    content = first.read_bytes()
    first.write_bytes(b"")
    log_in(tmp_path).append(event("set_throttle"))
    first.write_bytes(content)
    assert log_in(tmp_path).verify() == 2


def test_an_event_that_was_damaged_together_with_the_head_is_reported_and_takes_more_events(log, tmp_path):
    """Its hash stood in both: the next event can name what it finds there, and nothing else."""
    log.append(event("admit"))
    first, head = tmp_path / "audit" / "000001.json", tmp_path / "head.json"
    content = first.read_bytes()
    first.write_bytes(b"")
    head.write_bytes(b"")
    log_in(tmp_path).append(event("set_throttle"))
    first.write_bytes(content)
    log_in(tmp_path).append(event("submit_batch"))
    with pytest.raises(RecordDamagedError, match="Audit event 2 .* does not fit the one before it"):
        log_in(tmp_path).verify()
    assert [each.step for each in log_in(tmp_path)] == ["admit", "set_throttle", "submit_batch"]


def test_a_missing_event_is_reported(log, tmp_path):
    for step in ("admit", "set_throttle", "submit_batch"):
        log.append(event(step))
    (tmp_path / "audit" / "000002.json").unlink()
    with pytest.raises(RecordDamagedError, match="Audit event 2 .* is missing"):
        log.verify()


def test_a_trail_without_events_is_complete(log):
    assert log.verify() == 0


def test_many_writers_at_once_leave_one_chain(tmp_path):
    """A stop and the batch it stops write at the same time; no reader may see half of an event."""

    def write(_: int) -> None:
        for _ in range(20):
            log_in(tmp_path).append(event("admit"))

    with ThreadPoolExecutor(8) as writers:
        list(writers.map(write, range(8)))
    assert log_in(tmp_path).verify() == 160
    assert [p.name for p in (tmp_path / "audit").iterdir() if p.suffix != ".json"] == []


@pytest.mark.parametrize("how", ["altered", "removed"])
def test_the_last_event_is_no_exception(log, tmp_path, how):
    for step in ("admit", "set_throttle"):
        log.append(event(step))
    last = tmp_path / "audit" / "000002.json"
    if how == "altered":
        last.write_text(last.read_text().replace('"summary": "set_throttle"', '"summary": "nothing"'))
    else:
        last.unlink()
    with pytest.raises(
        RecordDamagedError, match="Audit event 2 .* is not the one that was written.*altered or cut off"
    ):
        log.verify()


def test_a_head_that_is_one_behind_is_no_fault(log, tmp_path):
    """A crash between an event and its head."""
    log.append(event("admit"))
    head = tmp_path / "head.json"
    behind = head.read_bytes()
    log.append(event("set_throttle"))
    head.write_bytes(behind)
    assert log.verify() == 2


STEPS = ("preflight", "plan", "admit", "set_throttle")


def forge(log, folder, count):
    """Write events with right links after the last one, into the folder of the events alone."""
    for number in range(log.last_number() + 1, log.last_number() + 1 + count):
        before = hashlib.sha256((folder / "audit" / f"{number - 1:06d}.json").read_bytes()).hexdigest()
        forged = event("approve").model_copy(update={"sequence": number, "previous_hash": before})
        (folder / "audit" / f"{number:06d}.json").write_bytes(as_bytes(forged))


def test_events_that_were_added_without_the_head_are_found(log, tmp_path):
    log.append(event("admit"))
    forge(log, tmp_path, 2)
    with pytest.raises(RecordDamagedError, match=r"has 3 events, expected 1 as its head .* says, or one more"):
        log_in(tmp_path).verify()


def test_a_head_that_could_not_be_written_is_made_up_for_before_the_next_event(tmp_path, monkeypatch):
    """Two writers die one after the other, each between its event and the head: it is one behind, never two."""
    log_in(tmp_path).append(event("admit"))
    write = audit.write_object

    def refuse_head_of(number):
        def refusing(place, content):
            if f'"sequence":{number}' in content.decode().replace(" ", ""):
                raise RecordUnavailableError("no answer")
            write(place, content)

        monkeypatch.setattr(audit, "write_object", refusing)

    for number in (2, 3):
        refuse_head_of(number)
        log_in(tmp_path).append(event("set_throttle"))
    assert (log_in(tmp_path).head_number(), log_in(tmp_path).verify()) == (2, 3)


def test_a_damaged_head_is_replaced_by_the_next_event(log, tmp_path):
    """Restored from a copy at the end, it would be of an event long before."""
    for step in STEPS:
        log.append(event(step))
    (tmp_path / "head.json").write_text("")
    log_in(tmp_path).append(event("verify"))
    assert log_in(tmp_path).verify() == log_in(tmp_path).head_number() == len(STEPS) + 1


def test_a_writer_that_stood_still_leaves_the_head_of_those_who_overtook_it(tmp_path, monkeypatch):
    log_in(tmp_path).append(event("admit"))
    write, slow = audit.write_object, []

    def overtaken(place, content):
        if not slow:
            slow.append(content)
            for step in STEPS:
                log_in(tmp_path).append(event(step))
        write(place, content)

    monkeypatch.setattr(audit, "write_object", overtaken)
    log_in(tmp_path).append(event("slow"))
    assert log_in(tmp_path).verify() == log_in(tmp_path).head_number() == 6


def test_a_trail_that_is_cut_off_together_with_its_head_is_found(log, tmp_path):
    for step in STEPS:
        log.append(event(step))
    for number in (3, 4):
        (tmp_path / "audit" / f"{number:06d}.json").unlink()
    (tmp_path / "head.json").unlink()
    with pytest.raises(RecordDamagedError, match=r"The head of .* is missing"):
        log.verify()


def test_a_trail_that_is_written_again_with_new_hashes_is_found(log, tmp_path):
    for step in STEPS:
        log.append(event(step))
    other = log_in(tmp_path / "other")
    for step in ("preflight", "plan", "nothing", "to see"):
        other.append(event(step))
    for file in (tmp_path / "other" / "audit").iterdir():
        file.replace(tmp_path / "audit" / file.name)
    with pytest.raises(RecordDamagedError, match="Audit event 4 .* is not the one that was written"):
        log.verify()


def test_the_hash_of_the_last_event_changes_with_every_event(log):
    seen = set()
    for step in STEPS:
        log.append(event(step))
        seen.add(log.last_hash())
    assert len(seen) == len(STEPS)
