"""Looks that can see no change are left out; what they lead to is the same as with all of them."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing import get_context

import pytest
from tests.simulation.clock import VirtualTime
from tests.simulation.exhaustive import play
from tests.simulation.exhaustive_courses import COURSES, base
from tests.simulation.moments import UNKNOWN, seconds_to_moment

from kafka_reassignment_airflow.runs import DAG_ID

pytestmark = pytest.mark.longer

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def looks_of(time: VirtualTime, pause: float) -> list[float]:
    """The moments at which something looks that polls every 10 s and sleeps for a long pause each time."""
    seen: list[float] = []

    def look() -> None:
        while True:
            time.poll(10.0, pause)
            seen.append(time.seconds)

    time.start(look)
    return seen


def test_a_long_pause_ends_at_the_first_look_after_what_happens():
    time = VirtualTime()
    seen = looks_of(time, 3600.0)
    time.advance(11.0)
    time.after(14.0, lambda: None)  # nobody knew of it when the pause began
    time.advance(100.0)
    assert seen == [30.0]


def test_what_happens_at_the_moment_of_a_look_is_seen_by_it():
    time = VirtualTime()
    seen = looks_of(time, 3600.0)
    happened: list[float] = []
    time.after(20.0, lambda: happened.append(len(seen)))
    time.advance(21.0)
    assert (seen, happened) == ([20.0], [0])


def test_a_write_to_the_cluster_wakes_as_an_event_does():
    time = VirtualTime()
    seen = looks_of(time, 3600.0)
    time.advance(42.0)
    time.stir()
    time.advance(100.0)
    assert seen == [50.0]


@pytest.mark.parametrize(
    ("windows", "zone", "now", "seconds"),
    [
        (("tue 01:00-05:00",), "Europe/Madrid", NOON, 12 * 3600),
        (("tue 01:00-05:00",), "UTC", NOON.replace(hour=2), 3 * 3600),
        (("mon-fri 12:05-13:00",), "UTC", NOON.replace(minute=5), 55 * 60),
        (("cron 0 * * * * for 30 min",), "UTC", NOON.replace(minute=10), 20 * 60),
        (("cron 0 * * * * for 30 min", "tue 01:00-05:00"), "UTC", NOON.replace(minute=40), 20 * 60),
        (("every blue moon",), "UTC", NOON, UNKNOWN.total_seconds()),
    ],
)
def test_the_next_moment_of_a_window_is_known(windows, zone, now, seconds):
    assert seconds_to_moment(windows, zone, now) == seconds


def _seconds_to_the_window_of_a_deleted_run() -> float:
    world = base().world()
    run = world.airflow.trigger(DAG_ID, {"windows": ["cron 0 * * * * for 30 min"]})
    world.airflow.delete(DAG_ID, run.run_id)
    return world.seconds_to_window()


def test_the_window_of_a_run_that_was_deleted_is_known_because_its_batches_go_on():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert 0 < pool.submit(_seconds_to_the_window_of_a_deleted_run).result() <= 3600


def _ends(looks: str) -> tuple[list[object], int]:
    polls: list[float] = []
    poll = VirtualTime.poll

    def counted(time: VirtualTime, step: float, seconds: float) -> None:
        polls.append(time.seconds)
        poll(time, step, seconds)

    VirtualTime.poll = counted  # type: ignore[method-assign]  # in a process of its own
    world, _ = play(replace(base(throttle_mb_per_second=1), looks=looks), COURSES[0])  # type: ignore[arg-type]
    runs = [(r.run_id, r.state) for r in world.airflow.runs.values()]
    ended = [r.ended_at.timestamp() for r in world.airflow.runs.values() if r.ended_at is not None]
    moved = {str(p): s.replicas for p, s in world.cluster.describe_partitions().items()}
    return [runs, moved, world.throttles(), world.lock_owner()], ended, len(polls)


def test_a_reassignment_ends_alike_and_at_nearly_the_same_time_with_few_looks():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        (every, ended, all_polls), (few, ended_with_few, some_polls) = pool.map(_ends, ("every", "few"))
    assert few == every
    assert ended_with_few == pytest.approx(ended, abs=15), "rates are corrected at looks"
    assert some_polls < all_polls / 2
