"""A batch begins at a low rate, which is raised while it copies: brokers would use up eleven seconds of their quota at once."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import move

from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, LEADER_RATE
from kafka_reassignment.model import (
    Batch,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
    ResourceKind,
)
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import AuditDraft
from kafka_reassignment.steps.base.view import observe_replicas
from kafka_reassignment.steps.base.waiting import SizeSamples, Waiting
from kafka_reassignment.steps.correction import correct_rates
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment.steps.throttle import keep_throttled
from kafka_reassignment.steps.throttling.restore import restore_configs

pytestmark = pytest.mark.longer

ASKED = 10_000_000
FIRST = [move("orders", 0, (1, 2), (4, 2)), move("orders", 3, (1, 2), (1, 4))]
SECOND = [move("orders", 2, (3, 1), (3, 4))]


def rates(run, key: str) -> dict[int, int]:
    found = {b: run.configs().get(ConfigResource.broker(b), {}).get(key) for b in (1, 2, 3, 4)}
    return {b: int(v.value) for b, v in found.items() if v is not None and v.value}


@pytest.fixture
def throttled(reassignment):
    run = reassignment(FIRST, SECOND)
    run.do_all("admit", "set_throttle")
    return run


def test_leaders_begin_low_because_idle_fetches_are_counted_and_are_raised_a_part_a_second(throttled):
    assert rates(throttled, LEADER_RATE) == {1: 909_091, 2: 909_091}
    assert rates(throttled, FOLLOWER_RATE) == {4: ASKED}
    seen = []
    throttled.clock.on_sleep.append(lambda: seen.append(rates(throttled, LEADER_RATE)[1]))
    before = throttled.clock.now
    throttled.do("submit_batch")
    assert rates(throttled, LEADER_RATE) == {1: ASKED, 2: ASKED}
    assert all(r.was_in_place for r in throttled.record.journal().rates)
    assert throttled.clock.now - before == timedelta(seconds=10)
    assert len(seen) == 10
    assert max(later - sooner for sooner, later in zip(seen, [*seen[1:], ASKED], strict=True)) <= ASKED / 11 + 1


def test_each_part_is_set_when_it_is_due_however_long_a_look_takes(throttled, cluster):
    """The first look's time is not known before. No part comes before it is due, and none is late because an earlier one was."""
    clock, set_at = throttled.clock, []
    looks = iter([0.2, 0.2, 0.1, 0.3, 1.5, *[0.2] * 20])
    describe, alter = cluster.describe_partitions, cluster.alter_configs

    def described(topics=None):
        if set_at:
            clock.now += timedelta(seconds=next(looks))
        return describe(topics)

    def altered(changes):
        set_at.append(clock.now)
        clock.now += timedelta(seconds=0.1)
        return alter(changes)

    cluster.describe_partitions, cluster.alter_configs = described, altered
    throttled.do("submit_batch")
    late = [round((at - set_at[0]).total_seconds() - part, 1) for part, at in enumerate(set_at)]
    assert len(late) == 11
    assert min(late) == 0
    assert max(late) == late[5], "the one whose look took so long"
    assert late[7:] == [0, 0, 0, 0]


def test_no_time_is_spent_on_raising_when_all_is_copied(throttled, cluster):
    before = throttled.clock.now
    throttled.clock.on_sleep.append(cluster.catch_up_all)
    throttled.do("submit_batch")
    assert throttled.clock.now - before == timedelta(seconds=1)
    throttled.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert rates(throttled, LEADER_RATE) == rates(throttled, FOLLOWER_RATE) == {}


def test_a_second_batch_right_after_lets_receivers_begin_low_too_and_a_later_one_does_not(throttled):
    throttled.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    throttled.do_all("admit", "set_throttle", batch=2)
    assert rates(throttled, FOLLOWER_RATE) == {4: 909_091}
    throttled.do("submit_batch", 2)
    assert rates(throttled, FOLLOWER_RATE) == {4: ASKED}


def test_a_batch_a_minute_later_lets_receivers_begin_at_the_whole_rate(throttled):
    throttled.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    throttled.clock.sleep(60)
    throttled.do_all("admit", "set_throttle", batch=2)
    assert rates(throttled, FOLLOWER_RATE) == {4: ASKED}


class HidingCluster(FakeCluster):
    """Brokers of Kafka 2.4 and 2.5, which do not show the rates that are set on them (F31)."""

    def describe_configs(self, resources, keys):
        return {
            r: {
                k: ConfigValue(None, v.source) if k in HIDDEN and v.source is ConfigSource.DYNAMIC_BROKER else v
                for k, v in values.items()
            }
            for r, values in super().describe_configs(resources, keys).items()
        }


HIDDEN = (LEADER_RATE, FOLLOWER_RATE)


def test_rates_are_raised_in_parts_too_where_brokers_hide_them(throttled, cluster):
    for number in (0, 1):
        cluster.hold_back(FIRST[number].partition, 4)
    shows, broker, seen = cluster.another_client(), ConfigResource.broker(1), []

    def note():
        seen.append(int(shows.describe_configs([broker], [LEADER_RATE])[broker][LEADER_RATE].value))

    throttled.clock.on_sleep.append(note)
    cluster.__class__ = HidingCluster
    throttled.do("submit_batch")
    note()
    assert seen[-1] == ASKED
    assert max(later - sooner for sooner, later in pairwise(seen)) <= ASKED / 11 + 1
    assert len(seen) == 11


@pytest.mark.parametrize("rerun", ["submit_batch", "sense_isr_catch_up"])
def test_a_raise_that_was_cut_off_is_taken_up_by_a_retry_and_by_the_next_look(throttled, cluster, rerun):
    for number in (0, 1):
        cluster.hold_back(FIRST[number].partition, 4)
    throttled.clock.on_sleep.append(_die)
    with pytest.raises(ConnectionResetError):
        throttled.do("submit_batch")
    throttled.clock.on_sleep.clear()
    assert rates(throttled, LEADER_RATE)[1] < ASKED / 4
    throttled.look(rerun) if rerun == "sense_isr_catch_up" else throttled.do(rerun)
    assert rates(throttled, LEADER_RATE) == {1: ASKED, 2: ASKED}


def test_what_copies_when_its_batch_is_over_is_raised_to_the_whole_rate(reassignment, cluster):
    """No batch raises it any more; where producers write faster than the low rate it would never be in sync.

    Another client's move takes the place of the expansion right after it is submitted, and keeps our new replica.
    """
    run = reassignment(FIRST[:1])
    partition = FIRST[0].partition
    cluster.hold_back(partition, 3, 4)

    def take_over():
        run.clock.on_sleep.clear()
        taken = {partition: (1, 4, 3)}
        cluster.another_client().alter_reassignments(taken, allow_replication_factor_change=True)

    run.do_all("admit", "set_throttle")
    run.clock.on_sleep.append(take_over)
    run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    assert rates(run, LEADER_RATE)[1] < ASKED
    seen = []
    run.clock.on_sleep.append(lambda: seen.append(rates(run, LEADER_RATE)[1]))
    run.do("clear_throttle")
    assert rates(run, LEADER_RATE) == {1: ASKED, 2: ASKED}
    assert rates(run, FOLLOWER_RATE) == {4: ASKED}
    assert max(later - sooner for sooner, later in zip(seen, [*seen[1:], ASKED], strict=True)) <= ASKED / 11 + 1
    cluster.catch_up(partition)
    restore_configs(run.context, AuditDraft())
    assert rates(run, LEADER_RATE) == rates(run, FOLLOWER_RATE) == {}


def _die():
    raise ConnectionResetError("the task was killed")


@pytest.mark.parametrize("part", [3, 11])
def test_a_part_that_is_journalled_and_not_set_yet_is_not_taken_for_a_missing_rate(throttled, cluster, part):
    """A look in this gap set the whole rate at once. The raise goes on where it was, also where its try has died."""
    for number in (0, 1):
        cluster.hold_back(FIRST[number].partition, 4)
    throttled.clock.on_sleep.append(lambda: slept.append(rates(throttled, LEADER_RATE)[1]))
    alter, slept = cluster.alter_configs, []

    def cut_off(changes):
        if len(slept) == part - 1:
            cluster.alter_configs = alter
            _die()
        return alter(changes)

    cluster.alter_configs = cut_off
    with pytest.raises(ConnectionResetError):
        throttled.do("submit_batch")
    batch = Batch(1, tuple(FIRST))
    keep_throttled(throttled.context, RecordView(throttled.record), batch)
    assert rates(throttled, LEADER_RATE) == {1: slept[-1], 2: slept[-1]}
    assert slept[-1] < ASKED
    throttled.look("sense_isr_catch_up")
    assert rates(throttled, LEADER_RATE) == {1: ASKED, 2: ASKED}


def test_what_is_asked_for_before_the_batch_is_submitted_does_not_raise_its_leaders_before_data_moves(throttled):
    change_rate(throttled.context, asked_bytes_per_second=20_000_000)
    assert rates(throttled, LEADER_RATE) == {1: 1_818_182, 2: 1_818_182}
    assert rates(throttled, FOLLOWER_RATE) == {4: 20_000_000}
    throttled.do("set_throttle")
    seen = []
    throttled.clock.on_sleep.append(lambda: seen.append(rates(throttled, LEADER_RATE)[1]))
    throttled.do("submit_batch")
    assert seen[0] < 4_000_000
    assert rates(throttled, LEADER_RATE) == {1: 20_000_000, 2: 20_000_000}
    change_rate(throttled.context, asked_bytes_per_second=5_000_000)
    assert rates(throttled, LEADER_RATE) == {1: 5_000_000, 2: 5_000_000}


def test_what_is_asked_for_meanwhile_is_raised_from_where_the_rate_is_then(throttled, cluster):
    """It was set at once as far as the raise that went on had come: from 7 MB/s to 41."""
    seen = []

    def asked_for_more():
        seen.append(rates(throttled, LEADER_RATE)[1])
        if len(seen) == 8:
            with pytest.raises(ConnectionResetError):  # the raise that goes on does the rest
                change_rate(replace(throttled.context, sleep=lambda _: _die()), asked_bytes_per_second=50_000_000)

    throttled.clock.on_sleep.append(asked_for_more)
    throttled.do("submit_batch")
    assert rates(throttled, LEADER_RATE) == {1: 50_000_000, 2: 50_000_000}
    assert (
        max(later - sooner for sooner, later in zip(seen, [*seen[1:], 50_000_000], strict=True)) < 2 * 50_000_000 / 11
    )


def test_a_rate_that_another_client_lowers_meanwhile_stays(throttled, cluster):
    one = ConfigResource.broker(1)

    def lowered():
        if rates(throttled, LEADER_RATE)[1] > ASKED / 2:
            throttled.clock.on_sleep.clear()
            cluster.another_client().alter_configs([ConfigChange(one, LEADER_RATE, ConfigOperation.SET, "1000000")])

    throttled.clock.on_sleep.append(lowered)
    throttled.do("submit_batch")
    assert rates(throttled, LEADER_RATE) == {1: 1_000_000, 2: ASKED}


@pytest.mark.parametrize("theirs", [2_000_000, 500_000])
@pytest.mark.parametrize("where", ["1", ""], ids=["of the broker", "of all brokers"])
def test_a_lower_rate_that_another_client_has_set_before_is_in_force_all_the_time(reassignment, cluster, theirs, where):
    resource = ConfigResource(ResourceKind.BROKER, where)
    cluster.another_client().alter_configs([ConfigChange(resource, LEADER_RATE, ConfigOperation.SET, str(theirs))])
    run = reassignment(FIRST, SECOND)
    seen = []
    run.clock.on_sleep.append(lambda: seen.append(rates(run, LEADER_RATE)[1]))
    run.do_all("admit", "set_throttle", "submit_batch")
    assert rates(run, LEADER_RATE)[1] == theirs
    assert max(seen) <= theirs


def test_a_stop_that_clears_the_throttle_meanwhile_leaves_nothing_behind(throttled, cluster):
    def stopped():
        if rates(throttled, LEADER_RATE)[1] > ASKED / 2:
            throttled.clock.on_sleep.clear()
            cluster.another_client().alter_reassignments({step.partition: None for step in FIRST})
            with throttled.context.audited("clear") as event:
                restore_configs(throttled.context, event)

    throttled.clock.on_sleep.append(stopped)
    throttled.do("submit_batch")
    assert rates(throttled, LEADER_RATE) == rates(throttled, FOLLOWER_RATE) == {}
    assert throttled.record.journal().is_settled


def submitted_large(throttled, cluster):
    """Let the first batch be of 2 GB a partition, and submit it; return the sizes."""
    large = {step.partition: 2_000_000_000 for step in FIRST}
    for partition, size in large.items():
        cluster.produce(partition, messages=1, size_bytes=size)
    throttled.do("submit_batch")
    return large


def test_what_arrives_is_measured_and_the_rate_is_corrected_also_for_the_next_batch(throttled, cluster):
    large = submitted_large(throttled, cluster)
    samples = SizeSamples.by_clock_of(throttled.context)
    for look in range(4):
        for partition in large:
            cluster.copy(partition, 4, 47_000_000 * look)  # in ten seconds: together 9.4 MB/s
        waits = throttled.look("sense_isr_catch_up", samples=samples)
        assert isinstance(waits, Waiting)
        throttled.clock.sleep(10)
    assert rates(throttled, FOLLOWER_RATE) == {4: round(ASKED * 1.03)}
    leaders = cluster.describe_partitions()
    assert samples.seen[-1].leaders == {p: leaders[p].leader for p in large}, "a new one is noticed"
    event = next(e for e in throttled.record.audit if e.step == "correct_rates")
    assert "follower rate of broker 4 to 1.03 of what is asked for" in event.summary
    throttled.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    throttled.clock.sleep(60)
    throttled.do_all("admit", "set_throttle", batch=2)
    assert rates(throttled, FOLLOWER_RATE) == {4: round(ASKED * 1.03)}


@pytest.mark.parametrize("writes", [1, 2], ids=["before the correction is noted", "before it is set"])
def test_a_rate_that_is_asked_for_while_a_correction_is_decided_is_not_set_at_once(throttled, cluster, writes):
    large = submitted_large(throttled, cluster)
    samples = SizeSamples.by_clock_of(throttled.context)
    for look in range(4):
        for partition in large:
            cluster.copy(partition, 4, 47_000_000 * look)
        samples.take(cluster, (1, 2, 4), large, throttled.record.journal().rates_set)
        throttled.clock.sleep(10)
    run, record = throttled.context, Record.update_journal
    recorded, batch = RecordView(run.record), Batch(1, tuple(FIRST))
    view = observe_replicas(run.cluster, batch.partitions)
    recorded.journal()
    written = []

    def update(self, change):
        written.append(change)
        if len(written) == writes:
            with pytest.MonkeyPatch.context() as undone:
                undone.setattr(Record, "update_journal", record)
                with pytest.raises(ConnectionResetError):
                    change_rate(replace(throttled.context, sleep=lambda _: _die()), asked_bytes_per_second=50_000_000)
        return record(self, change)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Record, "update_journal", update)
        correct_rates(run, recorded, batch, view, samples)
    assert len(written) >= writes
    assert rates(throttled, FOLLOWER_RATE)[4] < 15_000_000


def test_the_next_batch_begins_by_what_its_brokers_copied_of_this_one(throttled, cluster):
    large = {step.partition: 2_000_000_000 for step in FIRST}
    for partition, size in large.items():
        cluster.hold_back(partition, 4)
        cluster.produce(partition, messages=1, size_bytes=size)
    throttled.do("submit_batch")
    samples = SizeSamples.by_clock_of(throttled.context)
    for look in range(3):
        for partition, size in large.items():
            cluster.copy(partition, 4, size - 10_000_000 + 5_000_000 * look)
        throttled.look("sense_isr_catch_up", samples=samples)
        throttled.clock.sleep(1)
    cluster.catch_up_all()
    throttled.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    throttled.clock.sleep(3)
    throttled.do_all("admit", "set_throttle", batch=2)
    assert rates(throttled, FOLLOWER_RATE) == {4: 909_091}
    seen = []
    cluster.hold_back(SECOND[0].partition, 4)
    throttled.clock.on_sleep.append(
        lambda: seen.append((rates(throttled, FOLLOWER_RATE)[4], rates(throttled, LEADER_RATE)))
    )
    throttled.do("submit_batch", 2)
    assert 0.5 * ASKED < seen[0][0] < 0.75 * ASKED
    assert seen[0][1][3] < ASKED / 4  # it sent nothing of the first batch
    assert rates(throttled, FOLLOWER_RATE) == {4: ASKED}


def test_the_next_batch_begins_by_what_was_planned_of_this_one_where_it_was_over_too_soon_to_be_measured(
    throttled, cluster
):
    throttled.clock.on_sleep.append(cluster.catch_up_all)
    throttled.do("submit_batch")
    throttled.clock.on_sleep.clear()
    note = throttled.record.progress()
    assert note.text == "batch 1: all is copied"
    assert {(u.broker, str(u.side)): (u.bytes_per_second, u.seconds) for u in note.quota_uses} == {
        (1, "leader"): (2_000_000, 1.0),
        (4, "follower"): (2_000_000, 1.0),
    }
