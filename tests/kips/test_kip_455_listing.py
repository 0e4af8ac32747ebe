"""KIP-455's list on real brokers: half-done states, and the round trip with Kafka's own tool."""

import json

import pytest
from tests.contract.lab import eventually
from tests.steps_lab import move

from kafka_reassignment.plan.reassignment_json import parse_plan, render_plan, write_reassignment_json

pytestmark = pytest.mark.kafka


def states(message):
    [one] = message["reassignments"]
    return {f"{p['topic']}-{p['partition']}": (p["state"], p["reason"]) for p in one["partitions"]}


# Round trip with kafka-reassign-partitions


def test_kafkas_own_list_shows_what_ours_shows(views):
    first, second = views.create_held_topic([(1, 2), (2, 3)])
    views.submitted([move(first.topic, 0, (1, 2), (1, 3))])
    views.move_elsewhere(second, (4, 3))
    printed = views.cli("list")
    assert parse_plan(printed.stdout) == {first: (1, 2, 3), second: (4, 3)}
    assert views.kafka.tool("--list").splitlines()[:3] == [
        "Current partition reassignments:",
        f"{first}: replicas: 1,2,3. adding: 3.",
        f"{second}: replicas: 4,3,2. adding: 4. removing: 2.",
    ]
    assert f"In flight of reassignment r: 1 partitions ({first})" in printed.stderr
    assert f"In flight of another client: 1 partitions ({second})" in printed.stderr


def test_kafkas_own_verify_understands_what_we_print_while_it_moves_and_after(views):
    [p] = views.create_held_topic([(1, 2)])
    run = views.submitted([move(p.topic, 0, (1, 2), (3, 2))])
    in_flight = views.cli("list").stdout
    batch, remaining = (views.cli("list", "--show", show).stdout for show in ("batch", "remaining"))
    assert f"Reassignment of partition {p} is still in progress." in views.tool("--verify", in_flight)
    views.release([p])
    run.do_all("sense_isr_catch_up")
    assert f"Reassignment of partition {p} is completed." in views.tool("--verify", in_flight)
    run.do_all("drop_old_replicas")
    for plan in (batch, remaining):
        assert f"Reassignment of partition {p} is completed." in views.tool("--verify", plan)


def test_kafkas_own_verify_and_cancel_understand_the_records_reassignment_json(views):
    [p] = views.create_held_topic([(1, 2)])
    run = views.submitted([move(p.topic, 0, (1, 2), (3, 2))])
    path = run.record.root / "reassignment.json"
    write_reassignment_json(run.record.plan_uri, str(path))
    assert path.read_text() == views.cli("list", "--show", "remaining").stdout.strip()
    assert f"Reassignment of partition {p} is still in progress." in views.tool("--verify", path.read_bytes())
    assert f"Successfully cancelled partition reassignment for: {p}" in views.tool("--cancel", path.read_bytes())
    assert views.replicas(p) == (1, 2)
    assert states(views.json("list"))[str(p)][0] == "cancelled by another client"


@pytest.mark.parametrize("whose", ["ours", "foreign"])
def test_kafkas_own_cancel_takes_what_we_print_and_nothing_else(views, whose):
    first, second = views.create_held_topic([(1, 2), (2, 3)])
    views.submitted([move(first.topic, 0, (1, 2), (1, 3))])
    views.move_elsewhere(second, (4, 3))
    cancelled, kept = (first, second) if whose == "ours" else (second, first)
    message = views.tool("--cancel", views.cli("list", "--whose", whose).stdout)
    assert f"Successfully cancelled partition reassignment for: {cancelled}" in message
    assert list(parse_plan(views.cli("list").stdout)) == [kept]


def test_our_list_shows_a_plan_that_kafkas_tool_executed(views):
    first, second = views.create_held_topic([(1, 2), (2, 3)])
    plan = {first: (1, 4), second: (5, 3)}
    views.kafka.tool("--execute", "--reassignment-json-file", views.file(render_plan(plan)))
    assert views.cli("list").stdout == views.cli("list", records=False).stdout == render_plan(plan) + "\n"
    assert {m["reassignment_id"] for m in views.json("list")["moves"]} == {None}


def test_we_read_the_plan_that_kafkas_tool_generates(views):
    partitions = views.create_topic([(1, 2), (2, 1), (1, 2)])
    topics = views.file(json.dumps({"version": 1, "topics": [{"topic": partitions[0].topic}]}))
    message = views.kafka.tool("--generate", "--topics-to-move-json-file", topics, "--broker-list", "4,5,6")
    plan = parse_plan(message.partition("Proposed partition reassignment configuration\n")[2])
    assert list(plan) == partitions
    assert all(len(r) == 2 and set(r) <= {4, 5, 6} for r in plan.values())


def test_nothing_in_flight_is_an_empty_plan_which_kafkas_tool_takes(views):
    printed = views.cli("list")
    assert printed.stdout == '{"version":1,"partitions":[]}\n'
    assert views.tool("--verify", printed.stdout).split() == ["Status", "of", "partition", "reassignment:"]
    assert "No partition reassignments found." in views.kafka.tool("--list")


# The current batch and what is left of the plan (KIP-435)


def test_listing_shows_the_current_batch_and_what_is_left_of_the_plan(views):
    first, second = views.create_held_topic([(1, 2), (2, 3)])
    batches = [[move(first.topic, 0, (1, 2), (1, 3))], [move(first.topic, 1, (2, 3), (5, 3))]]
    run = views.submitted(*batches)
    shown = {show: parse_plan(views.cli("list", "--show", show).stdout) for show in ("in-flight", "batch", "remaining")}
    assert shown == {
        "in-flight": {first: (1, 2, 3)},
        "batch": {first: (1, 3)},
        "remaining": {first: (1, 3), second: (5, 3)},
    }
    views.release([first])
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    [one] = views.json("list")["reassignments"]
    assert (one["batch"], one["batches"], one["batches_finished"]) == (2, 2, 1)
    assert one["current_batch"] == one["remaining"] == json.loads(render_plan({second: (5, 3)}))


# Half-done states


def test_a_move_in_flight_and_a_completed_one_are_recognised(views):
    [moving] = views.create_held_topic([(1, 2)])
    [done] = views.create_topic([(1, 2)])
    views.submitted([move(moving.topic, 0, (1, 2), (1, 3)), move(done.topic, 0, (1, 2), (1, 3))])
    assert views.replicas(done) == (1, 2, 3)
    assert states(views.json("list")) == {
        str(moving): ("in flight", "in flight to 1,2,3, waiting for 3"),
        str(done): ("expanded", "at 1,2,3, target in sync"),
    }
    views.move_elsewhere(done, (1, 3))
    assert views.replicas(done) == (1, 3)
    assert states(views.json("list"))[str(done)] == ("completed", "at 1,3, target in sync")


def test_a_cancel_by_another_client_is_recognised_gone_but_not_at_its_target(views):
    [p] = views.create_held_topic([(1, 2)])
    run = views.submitted([move(p.topic, 0, (1, 2), (1, 3))])
    views.move_elsewhere(p, None)
    assert views.replicas(p) == (1, 2)
    message = views.cli("list")
    assert f"Look at {p}: cancelled by another client: at 1,2: the controller had accepted its move" in message.stderr
    assert parse_or_empty(message.stdout) == {}
    run.do("sense_isr_catch_up")  # the batch's own sensor says the same
    assert "another client cancelled its reassignment" in run.record.submitted(1).left_out[str(p)]


def test_a_partial_expansion_is_recognised(views):
    [p] = views.create_topic([(1, 2)])
    views.submitted([move(p.topic, 0, (1, 2), (3, 4))])
    assert views.replicas(p) == (1, 2, 3, 4)
    views.move_elsewhere(p, (1, 2, 3))
    assert views.replicas(p) == (1, 2, 3)
    assert states(views.json("list"))[str(p)] == ("partially expanded", "at 1,2,3, 4 not added")


def test_a_move_that_hangs_for_ever_is_recognised_as_stuck(views):
    """F34: a target within current and adding, submitted over a move in flight."""
    [p] = views.create_held_topic([(1, 2)])
    views.submitted([move(p.topic, 0, (1, 2), (3, 4))])
    views.move_elsewhere(p, (3, 4))
    views.move_elsewhere(p, (2, 3))
    state, reason = states(views.json("list"))[str(p)]
    assert state == "stuck"
    assert reason == "in flight to 2,3, which Kafka never completes: broker 4 is both added and removed. Cancel it"
    views.release([p])
    eventually(lambda: views.cluster.describe_partitions([p.topic])[p].isr, lambda isr: isr == {1, 2, 3, 4})
    assert states(views.json("list"))[str(p)] == (state, reason)


def test_a_move_to_a_dead_broker_is_recognised_as_stuck(breakable_kafka, views):
    [p] = views.create_held_topic([(1, 2)])
    views.submitted([move(p.topic, 0, (1, 2), (1, 6))])
    views.kill(6)
    assert states(views.json("list"))[str(p)] == (
        "stuck",
        "in flight to 1,2,6, waiting for 6; broker 6 of the target 1,6 is down",
    )


def test_another_clients_move_of_a_partition_of_ours_is_recognised(views):
    [p] = views.create_held_topic([(1, 2)])
    views.submitted([move(p.topic, 0, (1, 2), (1, 3))])
    views.move_elsewhere(p, (1, 2, 5))
    message = views.json("list")
    assert states(message)[str(p)][0] == "another client's move"
    assert [m["reassignment_id"] for m in message["moves"]] == [None]


def parse_or_empty(text):
    return parse_plan(text) if json.loads(text)["partitions"] else {}
