"""Auto rate on the fake cluster: what is seen changes the rate, and every change can be found afterwards."""

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import StillWaiting, move

from kafka_reassignment.decisions.rate import rate_in_force
from kafka_reassignment.decisions.throttle import RateChange, Side
from kafka_reassignment.errors import ClusterUnavailableError, NotAuthorizedError
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.steps.auto_rate import CANARY_ROUNDS
from kafka_reassignment.steps.base.waiting import Done, Waiting
from kafka_reassignment.steps.rate import change_rate

pytestmark = pytest.mark.longer

MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]
ELSEWHERE = TopicPartition("orders", 3)
ASKED = {"auto_rate": True, "canary_topic": "canary", "watched_groups": ["billing"], "lag_growth_messages": 100}


@pytest.fixture
def canaries(cluster):
    partitions = cluster.create_topic("canary", [(1, 2), (2, 3)])
    cluster.catch_up_all()
    return partitions


@pytest.fixture
def moving(reassignment, cluster, canaries):
    """A batch that copies, and looks at it."""
    cluster.commit("billing", ELSEWHERE, 0)
    run = reassignment(MOVES, [move("orders", 2, (3, 1), (3, 4))], **ASKED)
    run.do_all("admit", "set_throttle", "submit_batch")
    return run


def look(run, seconds=15.0):
    """Look once more; return the line of progress."""
    run.clock.sleep(seconds)
    result = run.look("sense_isr_catch_up", started_at=run.clock.now)
    assert isinstance(result, Waiting), result
    return result.reason


def rate(run):
    return rate_in_force(run.context.request, run.record.journal()) / 1e6


def rates_set(run):
    """Every rate that is set on a broker, in MB/s."""
    keys = {side.rate_key for side in Side}
    found = (c for r, c in run.configs("orders").items() if r != ConfigResource.topic("orders"))
    return {int(v.value) / 1e6 for configs in found for key, v in configs.items() if key in keys and v.value}


def changes(run):
    return [e.summary for e in run.record.audit if e.step == "change_rate"]


def test_slow_producers_lower_the_rate_in_the_next_look_and_all_that_can_be_read_says_why(moving, cluster, canaries):
    assert "auto rate, 2.5 to 20 MB/s: 10 MB/s, calm for 0 s" in look(moving)
    cluster.slow_producers(canaries[:1], 0.8)
    said = look(moving)
    why = "canary messages took longer than 500 ms 10 times, up to 800 ms"
    assert f"auto rate, 2.5 to 20 MB/s: lowered to 7 MB/s, {why}" in said
    assert rates_set(moving) == {7}
    assert changes(moving)[-1].startswith(
        f"auto rate lowers it: {why}: rate of all brokers (leader and follower side): 7 MB/s"
    )
    latest = moving.record.journal().rate_changes[-1]
    assert latest.because == f"auto rate lowers it: {why}"
    assert latest.at is not None
    assert moving.record.progress().text == said


def test_it_goes_down_to_the_lowest_and_after_a_minute_of_calm_up_to_the_highest(moving, cluster, canaries):
    cluster.slow_producers(canaries, 2)
    seen = [look(moving) and rate(moving) for _ in range(6)]
    assert seen == [7, 4.9, 3.43, 2.5, 2.5, 2.5]
    cluster.slow_producers(canaries, None)
    assert [look(moving) and rate(moving) for _ in range(3)] == [2.5] * 3
    seen = [look(moving) and rate(moving) for _ in range(60)]
    assert seen[:3] == [2.727272, 2.727272, 2.975205]
    assert (seen[-1], max(rates_set(moving))) == (20, 20)
    assert seen == sorted(seen)


def test_one_slow_round_lowers_nothing(moving, cluster, canaries):
    look(moving)
    cluster.slow_producers(canaries, 0.8)
    first = cluster.produce_latencies

    def once(partitions):
        found = first(partitions)
        cluster.slow_producers(canaries, None)
        return found

    cluster.produce_latencies = once
    look(moving)
    assert rate(moving) == 10


def test_replicas_elsewhere_that_leave_the_isr_lower_it_and_those_of_the_batch_do_not(moving, cluster):
    look(moving)
    cluster.fall_behind(TopicPartition("orders", 0), 2)
    look(moving)
    assert rate(moving) == 10
    cluster.fall_behind(ELSEWHERE, 2)
    assert "1 replicas left the ISR of partitions that do not move (broker 2: 1)" in look(moving)
    assert rate(moving) == 7
    said = [look(moving) for _ in range(8)]
    assert "not raised: 1 replicas of partitions that do not move are out of sync" in said[-1]
    assert rate(moving) == 7
    cluster.catch_up(ELSEWHERE, 2)
    assert [look(moving) and rate(moving) for _ in range(5)][-1] == pytest.approx(7.636363)


def test_a_broker_that_dies_and_comes_back_is_no_pressure(moving, cluster):
    look(moving)
    cluster.kill(2)
    look(moving, 40)
    cluster.restart(2)
    look(moving)
    assert rate(moving) == 10


def test_a_growing_lag_lowers_it(moving, cluster):
    look(moving)
    cluster.produce(ELSEWHERE, messages=101, size_bytes=1000)
    assert "the lag of group billing grew by 101 messages" in look(moving)
    assert rate(moving) == 7
    look(moving)
    assert rate(moving) == 7, "it did not grow further"


def test_a_signal_that_cannot_be_seen_keeps_the_rate_and_fails_nothing(moving, cluster):
    look(moving)
    cluster.fail("produce_latencies", NotAuthorizedError("no right to write"), times=100)
    cluster.fail("committed_offsets", ClusterUnavailableError("the coordinator moves"), times=100)
    said = [look(moving) for _ in range(8)][-1]
    assert rate(moving) == 10
    assert "not raised: canary messages are not written: no right to write" in said
    assert "the lag of group billing is not seen: the coordinator moves" in said


class PartlySilentCluster(FakeCluster):
    """Brokers tell of single topics, and not of all at once: too many of them for the time that there is."""

    def describe_partitions(self, topics=None):
        if topics is None:
            raise ClusterUnavailableError("a broker did not answer in 30 s")
        return super().describe_partitions(topics)


def test_a_finished_batch_is_not_held_by_partitions_elsewhere_that_cannot_be_seen(moving, cluster):
    """It waited until its time was over, and failed."""
    cluster.__class__ = PartlySilentCluster
    said = look(moving)
    assert "not raised: the partitions of the cluster are not seen: a broker did not answer in 30 s" in said
    cluster.catch_up_all()
    assert isinstance(moving.look("sense_isr_catch_up", started_at=moving.clock.now), Done)


def test_an_end_offset_that_is_not_known_is_no_lag_of_nothing(moving, cluster):
    cluster.produce(ELSEWHERE, messages=500, size_bytes=1000)
    look(moving)
    ends = cluster.end_offsets
    cluster.end_offsets = lambda asked: {p: e for p, e in ends(asked).items() if p != ELSEWHERE}
    look(moving)
    cluster.end_offsets = ends
    look(moving)
    assert rate(moving) == 10


def test_partitions_of_the_canary_topic_that_move_are_not_written_to(reassignment, cluster, canaries):
    run = reassignment([move("canary", 0, (1, 2), (1, 4))], **ASKED | {"watched_groups": []})
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.slow_producers(canaries[:1], 3)
    before = cluster.end_offsets(canaries)
    look(run)
    after = cluster.end_offsets(canaries)
    assert [after[p] - before[p] for p in canaries] == [0, CANARY_ROUNDS]
    assert rate(run) == 10


def test_a_person_ends_it_and_is_told(moving, cluster, canaries):
    look(moving)
    assert change_rate(moving.context, asked_bytes_per_second=4_000_000).endswith("; auto rate ends with this")
    assert "auto rate ends" not in change_rate(moving.context, asked_bytes_per_second=5_000_000, brokers=[3])
    cluster.slow_producers(canaries, 2)
    assert "auto rate has ended: the rate was changed by hand" in look(moving)
    assert rate(moving) == 4
    assert len(changes(moving)) == 2


def test_a_change_by_a_person_during_the_look_is_not_overwritten(moving, cluster, canaries):
    look(moving)
    cluster.slow_producers(canaries, 2)
    first = cluster.produce_latencies

    def meanwhile(partitions):
        cluster.produce_latencies = first
        change_rate(moving.context, asked_bytes_per_second=4_000_000)
        return first(partitions)

    cluster.produce_latencies = meanwhile
    look(moving)
    assert (rate(moving), rates_set(moving), len(changes(moving))) == (4, {4}, 1)


def test_two_tries_at_once_lower_it_once(moving, cluster, canaries):
    look(moving)
    cluster.slow_producers(canaries, 2)
    first = cluster.produce_latencies

    def meanwhile(partitions):
        cluster.produce_latencies = first
        look(moving, 0)
        return first(partitions)

    cluster.produce_latencies = meanwhile
    look(moving)
    assert (rate(moving), len(changes(moving))) == (7, 1)


def test_a_death_after_the_journal_is_carried_on_by_the_next_look(moving, cluster, canaries):
    look(moving)
    cluster.slow_producers(canaries, 2)
    cluster.fail("alter_configs", ConnectionResetError("the process was killed"))
    with pytest.raises(ConnectionResetError):
        look(moving)
    cluster.slow_producers(canaries, None)
    assert (rate(moving), rates_set(moving)) == (7, {10})
    look(moving)
    assert rates_set(moving) == {7}


def test_health_goes_first_and_auto_rate_goes_on_from_where_it_was(reassignment, cluster, canaries):
    cluster.commit("billing", ELSEWHERE, 0)
    run = reassignment(MOVES, mb_per_second_while_unhealthy=2, **ASKED)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.slow_producers(canaries, 2)
    look(run)
    cluster.fall_behind(ELSEWHERE, 2)
    assert "it waits while the cluster is unhealthy" in look(run)
    assert rate(run) == 2
    cluster.catch_up(ELSEWHERE, 2)
    cluster.slow_producers(canaries, None)
    assert "7 MB/s, calm for" in look(run)
    assert rate(run) == 7


def test_what_protects_single_brokers_in_a_roll_back_is_no_rate_of_all_and_stays_whatever_auto_rate_does(
    reassignment, cluster, canaries
):
    """The lowest rate of any broker was taken for the one of all: calm cut all brokers down to it, and raised the protected one."""
    cluster.commit("billing", ELSEWHERE, 0)
    run = reassignment(MOVES, **ASKED)
    kept = RateChange(asked_bytes_per_second=5_000_000, brokers=(4,), because="as while x ran, which is rolled back")
    run.record.update_journal(lambda j: (j.model_copy(update={"rate_changes": (kept,)}), None))
    run.do_all("admit", "set_throttle", "submit_batch")
    for _ in range(60):
        look(run)
    assert rates_set(run) == {5, 20}
    cluster.slow_producers(canaries, 2)
    for _ in range(10):
        look(run)
    assert rates_set(run) == {2.5}, "below its own rate it bears the pressure as all others do"
    change_rate(run.context, asked_bytes_per_second=8_000_000)
    assert rates_set(run) == {8}, "a person's word for all brokers counts for it too"


def test_a_lower_rate_of_another_client_stays(moving, cluster, canaries):
    key, broker = Side.FOLLOWER.rate_key, ConfigResource.broker(3)
    cluster.alter_configs([ConfigChange(broker, key, ConfigOperation.SET, "1000000")])
    for _ in range(12):
        look(moving)
    assert rate(moving) > 10
    assert cluster.describe_configs([broker], [key])[broker][key].value == "1000000"


def test_later_batches_go_on_at_the_rate_and_everything_is_restored_at_the_end(moving, cluster, canaries):
    cluster.slow_producers(canaries, 2)
    look(moving)
    cluster.slow_producers(canaries, None)
    moving.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    moving.do_all("admit", "set_throttle", "submit_batch", batch=2)
    assert rates_set(moving) == {7}
    moving.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=2)
    assert rates_set(moving) == set()


def test_a_request_without_it_asks_the_cluster_for_nothing_more(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.calls.clear()
    with pytest.raises(StillWaiting) as waits:
        run.do("sense_isr_catch_up")
    assert not {"produce_latencies", "committed_offsets"} & set(cluster.calls)
    assert "auto rate" not in str(waits.value)
