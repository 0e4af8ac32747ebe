"""The card by which people approve a plan: what, how long, and what to be careful about."""

import pytest
from tests.unit.plan.test_report import broker
from tests.unit.plan.test_report import summary as full_summary

from kafka_reassignment.plan.risks import risks
from kafka_reassignment.plan.score_card import score_card
from kafka_reassignment.plan.summary import LogDirSummary, PlanSummary
from kafka_reassignment.request import parse_request

pytestmark = pytest.mark.quick

ASKED = parse_request({"job": "decommission", "brokers": [1], "throttle_mb_per_second": 50})
GB = 10**9


def summary(**changes: object) -> PlanSummary:
    return full_summary(**{"log_dirs": (), **changes})


def log_dir(number: int, free: int | None, take: int, total: int = 100) -> LogDirSummary:
    free_bytes = None if free is None else free * GB
    return LogDirSummary(
        broker=number, path="/d", total_bytes=total * GB, free_bytes=free_bytes, bytes_to_take=take * GB
    )


def test_it_says_bytes_hours_and_until_when_leaders_brokers_and_the_hash_of_the_plan():
    card = score_card(summary(), ASKED, "all is expected to be over Sun 04:00 Europe/Madrid")
    for part in (
        "1234 of 2000 partitions in 2 batches, 6.000 GB to copy",
        "about 1:01:40 at 50 MB/s for each broker",
        "Approved as soon as it was planned, all is expected to be over Sun 04:00 Europe/Madrid",
        "77 preferred leaders change",
        "3 brokers are outside the tolerance of 10% now, 1 after",
        "| 1 | a | 9.000 | 6.000 | 40 | 50 | 10 | 20 |",
        "`abcdef0123456789`. Only this plan runs",
        "Assumed: Broker 7 is not alive.",
    ):
        assert part in card
    assert "Risk" not in card


def test_a_disk_that_will_be_nearly_full_is_a_risk_and_the_fullest_comes_first():
    dirs = (log_dir(4, 60, 30), log_dir(5, 30, 20), log_dir(6, 20, 30), log_dir(7, 5, 0))
    assert risks(summary(log_dirs=dirs), ASKED) == (
        "Disk nearly full: /d of broker 6 has 10 GB too little at the peak, before old replicas go",
        "Disk nearly full: /d of broker 5 has 10% free (10 GB) at the peak, before old replicas go",
    )


def on_path(log_dir: LogDirSummary, path: str) -> LogDirSummary:
    return log_dir.model_copy(update={"path": path})


def test_log_dirs_that_may_share_a_volume_are_named_where_that_would_fill_it():
    """Each reports the bytes of its volume, so that of a shared one counts twice."""
    dirs = tuple(on_path(log_dir(4, 80, 50, total=200), path) for path in ("/d/a", "/d/b"))
    (*_, found) = risks(summary(log_dirs=dirs), ASKED)
    assert found == (
        "Perhaps one volume: /d/a, /d/b of broker 4 report the same bytes, and are counted as a volume each. If they share one, it "
        "gets 100 GB and has 80 GB free now"
    )
    room = tuple(on_path(log_dir(4, 180, 50, total=200), path) for path in ("/d/a", "/d/b"))
    others = (
        log_dir(5, 80, 20, total=200),
        on_path(log_dir(5, 81, 20, total=200), "/e"),
        log_dir(6, 80, 20, total=200),
    )
    assert risks(summary(log_dirs=(*room, *others)), ASKED) == ()


def test_disks_whose_free_space_is_not_known_are_named_where_something_is_copied_to_them():
    found = risks(summary(log_dirs=(log_dir(4, None, 30), log_dir(5, None, 0))), ASKED)
    assert found == ("Disks not known: brokers 4 do not report their free space",)


def test_fewer_racks_are_a_risk():
    (found,) = risks(summary(fewer_racks=3), ASKED)
    assert found.startswith("Fewer racks: the replicas of 3 partitions will be in fewer racks than now")


def test_what_the_request_gives_up_is_a_risk():
    asked = parse_request(
        {"job": "rebalance", "unthrottled": True, "supersede": True, "allowed_unhealthy_partitions": 3}
    )
    assert [text.partition(":")[0] for text in risks(summary(), asked)] == [
        "No throttle",
        "Supersedes",
        "Unhealthy cluster",
    ]


def test_producers_that_wait_for_the_copies_and_what_is_not_moved_come_first():
    plan = summary(
        producers_wait=("raised (2 partitions with 1 of 2)",), below_min_insync=("moved (1 partitions with 1 of 2)",)
    )
    waits, stays = risks(plan, ASKED)
    assert waits.startswith("Producers wait: those with acks=all stop")
    assert "min.insync.replicas: raised (2 partitions with 1 of 2). Lower" in waits
    assert stays.startswith("Not moved: ")
    assert "moved (1 partitions with 1 of 2)" in stays
    assert f"**Risk.** {waits}" in score_card(plan, ASKED)


def test_a_broker_that_is_down_many_leaders_and_fewer_replicas_are_risks():
    down = broker(3, "a", 10, 0).model_copy(update={"alive": False})
    plan = summary(
        brokers=(down,),
        leader_changes=501,
        factor_changes=("orders: 3 partitions from replication factor 3 to 2 (fewer)",),
    )
    assert [text.partition(":")[0] for text in risks(plan, ASKED)] == ["Brokers down", "Fewer replicas", "Many leaders"]
