"""Two tries of a step below Kafka 2.4: what comes late is bound to what it was decided on, since it cannot be cancelled."""

import pytest
from tests.steps_lab import move

from kafka_reassignment.errors import RACED, OvertakenError
from kafka_reassignment.model import TopicPartition

pytestmark = pytest.mark.quick

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def run(reassignment):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    run.do_all("admit", "set_throttle")
    return run


@pytest.mark.parametrize("is_clear", [False, True], ids=["while the batch waits", "when the batch is finished"])
@pytest.mark.parametrize("when", ["before its request", "between its look and its write"])
def test_an_expansion_that_comes_after_the_drop_copies_nothing_again(old, run, monkeypatch, when, is_clear):
    steps = ("submit_batch", "sense_isr_catch_up", "drop_old_replicas", *(("clear_throttle",) if is_clear else ()))
    submit = old.alter_reassignments

    def another_try_does_the_rest() -> None:
        monkeypatch.undo()
        old.before_write = lambda: None
        run.do_all(*steps)

    def late(targets, **options):
        another_try_does_the_rest()
        return submit(targets, **options)

    if when == "before its request":
        monkeypatch.setattr(old, "alter_reassignments", late)
    else:
        old.before_write = another_try_does_the_rest
    with pytest.raises(OvertakenError):
        run.do("submit_batch")
    assert old.written == [{ORDERS_0: (1, 2, 3)}, {ORDERS_0: (1, 3)}]
    assert old.kafka.copying() == []
    assert run.replicas()["orders-0"] == (1, 3)


def test_what_another_client_has_moved_meanwhile_is_refused_and_the_rest_is_written(old):
    old.somebody_submits({ORDERS_1: (1, 4)})
    old.kafka.catch_up_all()
    replies = old.alter_reassignments(
        {ORDERS_0: (1, 2, 3), ORDERS_1: (1, 2, 3)},
        allow_replication_factor_change=True,
        expected={ORDERS_0: (1, 2), ORDERS_1: (1, 2)},
    )
    assert replies[ORDERS_0] is None
    assert str(replies[ORDERS_1]) == f"{RACED}: it is at 1,4, expected 1,2 as when this was decided"
    assert old.written[-1] == {ORDERS_0: (1, 2, 3)}


def test_what_is_in_the_znode_already_or_done_is_accepted_again(old):
    ask = {"allow_replication_factor_change": True, "expected": {ORDERS_0: (1, 2)}}
    for _ in range(2):
        assert old.alter_reassignments({ORDERS_0: (1, 2, 3)}, **ask) == {ORDERS_0: None}
    old.kafka.catch_up_all()
    old.work()
    assert old.alter_reassignments({ORDERS_0: (1, 2, 3)}, **ask) == {ORDERS_0: None}
    assert len(old.written) == 1
