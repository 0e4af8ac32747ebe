"""KIP-240 on real brokers: the identity of a reassignment, and its description; KIP-179's table of statuses."""

import json

import pytest
from tests.contract.lab import HELD_BYTES, eventually
from tests.steps_lab import move

pytestmark = pytest.mark.kafka

ONE_KB_PER_SECOND = 0.001


def described(views, *arguments, **more):
    return views.json("describe", "--watch-seconds", "0", *arguments, **more)


def statuses(message):
    return [(row["partition"], row["broker"], row["status"]) for row in message["statuses"]]


def test_two_successive_reassignments_of_one_partition_differ_and_each_keeps_its_start_for_life(views):
    [p] = views.create_held_topic([(1, 2)])
    first = views.submitted([move(p.topic, 0, (1, 2), (1, 3))], reassignment_id="first")
    [one] = described(views)["partitions"]
    [again] = described(views)["partitions"]
    assert one["reassignment_id"] == "first"
    assert (
        one["started_at_seconds"]
        == again["started_at_seconds"]
        == first.record.recorded_request().started_at.timestamp()
    )
    assert again["elapsed_seconds"] > one["elapsed_seconds"] > 0

    views.release([p])
    first.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    first.finish()

    views.submitted([move(p.topic, 0, (1, 3), (1, 4))], reassignment_id="second")
    message = views.json("list")
    assert [r["reassignment_id"] for r in message["active"]] == ["second"]
    [second] = message["active"]
    assert second["started_at_seconds"] > one["started_at_seconds"]


def test_a_finished_reassignment_is_no_longer_listed_as_active_but_stays_in_the_records(views):
    [p] = views.create_held_topic([(1, 2)])
    run = views.submitted([move(p.topic, 0, (1, 2), (1, 3))])
    [active] = views.json("list")["active"]
    assert (active["reassignment_id"], active["requested_by"], active["status"]) == ("r", "ann", "active")
    views.release([p])
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    run.finish()
    message = views.json("list")
    assert (message["active"], message["moves"], message["in_flight"]["partitions"]) == ([], [], [])
    assert message["finished"] == [active | {"status": "finished"}]
    assert described(views, "--reassignment", "r")["notes"] == [
        "All 1 batches of reassignment r are finished: nothing of it is left to describe"
    ]


def test_a_move_under_throttle_is_described_with_lag_and_bytes_that_fit_what_was_written(views):
    [p] = views.create_topic([(1, 2)])
    views.write(p, messages=80, size_bytes=HELD_BYTES)
    run = views.submitted([move(p.topic, 0, (1, 2), (3, 2), HELD_BYTES)], mb_per_second=ONE_KB_PER_SECOND)
    eventually(lambda: views.cluster.describe_log_dirs([3], [p]).replicas, lambda found: len(found) == 1)
    message = described(views)
    assert (message["reassignment_id"], message["batch"], message["batches"]) == ("r", 1, 1)
    [found] = message["partitions"]
    assert (found["topic"], found["partition"]) == (p.topic, 0)
    assert (found["state"], found["reason"]) == ("in flight", "in flight to 1,2,3, waiting for 3")
    assert (found["current"], found["target"], found["adding"], found["removing"]) == ([1, 2], [3, 2], [3], [1])
    # Leaders are throttled for what they send, followers only where they receive: broker 2 copies nothing.
    assert (found["current_leader"], found["leader_throttle"]) == (1, 1000)
    assert found["throttles"] == {"3": 1000, "2": "unlimited"}
    assert found["elapsed_seconds"] >= 0
    [replica] = found["replicas"]
    sizes = {r.broker: r.size_bytes for r in views.cluster.describe_log_dirs([1, 3], [p]).replicas}
    assert HELD_BYTES < sizes[1] < HELD_BYTES * 1.01
    assert replica["bytes_left"] == sizes[1] - sizes[3] > 0
    assert replica["log_end_offset"] + replica["messages_behind"] == 80
    assert replica["messages_behind"] > 0
    assert (replica["bytes_per_second"], replica["seconds_left"]) == (None, None)  # one look tells no speed
    assert statuses(message) == [(0, 3, f"Behind: {replica['messages_behind']} messages behind"), (0, 2, "In sync")]

    views.write(p, messages=5, size_bytes=500)
    [replica] = described(views)["partitions"][0]["replicas"]
    assert replica["log_end_offset"] + replica["messages_behind"] == 85
    assert run.record.audit.verify() == 3  # a view writes no event


def test_speed_and_time_left_are_those_of_the_throttle(views):
    [p] = views.create_topic([(1, 2)])
    views.write(p, messages=400, size_bytes=60_000_000)
    views.submitted([move(p.topic, 0, (1, 2), (1, 3), 60_000_000)], mb_per_second=1)
    message = views.json("describe")
    [replica] = message["partitions"][0]["replicas"]
    assert replica["state"] == "moving"
    assert 500_000 < replica["bytes_per_second"] < 1_600_000
    assert 0 < replica["bytes_left"] < 50_000_000
    assert replica["seconds_left"] == pytest.approx(replica["bytes_left"] / replica["bytes_per_second"])
    assert message["seconds_left"] == pytest.approx(replica["seconds_left"])
    assert message["partitions"][0]["leader_throttle"] == message["partitions"][0]["throttles"]["3"] == 1_000_000


def test_another_clients_move_is_described_too_without_an_identity(views):
    moving, still = views.create_held_topic([(1, 2), (2, 3)])
    views.move_elsewhere(moving, (4, 2))
    for message in (described(views, records=False), described(views, "--topic", moving.topic)):
        [found] = message["partitions"]
        assert (found["reassignment_id"], found["started_at_seconds"], found["elapsed_seconds"]) == (None, None, None)
        assert (found["current"], found["target"], found["state"]) == ([2, 1], [4, 2], "in flight")
        assert found["replicas"][0]["messages_behind"] > 0
    message = described(views, "--partition", str(still))
    assert message["partitions"] == []
    assert statuses(message) == [(1, 2, "In sync"), (1, 3, "In sync")]


def test_the_text_has_every_status_of_the_kip(views):
    [p] = views.create_held_topic([(1, 2)])
    views.submitted([move(p.topic, 0, (1, 2), (1, 3))])
    entries = [(p.topic, 0, [1, 3, 6, 99]), (p.topic, 42, [1]), ("no-such-topic", 0, [1])]
    plan = {"version": 1, "partitions": [{"topic": t, "partition": n, "replicas": r} for t, n, r in entries]}
    file = views.file(json.dumps(plan))
    eventually(lambda: views.cluster.describe_log_dirs([3], [p]).replicas, lambda found: len(found) == 1)
    message = views.cli("describe", "--watch-seconds", "0", "--reassignment-json-file", file).stdout
    [behind] = {s for _, broker, s in statuses(described(views, "--partition", str(p))) if broker == 3}
    table = message[message.index("Topic ") :].splitlines()
    assert [line.split(maxsplit=3) for line in table if not line.startswith("-")] == [
        ["Topic", "Partition", "Broker", "Status"],
        [p.topic, "0", "1", "In sync"],
        [p.topic, "0", "3", behind],
        [p.topic, "0", "6", "Broker does not host this partition"],
        [p.topic, "0", "99", "Unknown broker"],
        [p.topic, "42", "1", "Unknown partition"],
        ["no-such-topic", "0", "1", "Unknown topic"],
    ]
    assert behind.startswith("Behind: ")
    assert message.startswith("r: batch 1 of 1, 0 of 1 partitions in sync, 8.0 MB left")
    assert f"{p}: 1,2 → 1,3, leader 1 (1 byte/s), r, for " in message
