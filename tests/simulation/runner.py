"""Running seeds: each twice, in two processes, with a summary of what broke."""

from __future__ import annotations

import cProfile
import gc
import pstats
import random
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context

from tests.simulation.actions import ADDED_FROM, Action, random_actions, with_added
from tests.simulation.clock import TooManyEventsError
from tests.simulation.coverage import Coverage
from tests.simulation.directed import directed, state_of
from tests.simulation.disk import Kind, StandsStill
from tests.simulation.scenario import scenario
from tests.simulation.trial import run_trial

MOST_SECONDS = 300.0
"""Of this process, for one seed."""

CHUNK = 25
"""Seeds that a process takes at a time."""


@dataclass(frozen=True)
class Found:
    """What a seed showed: which invariant is broken, and how, in one line."""

    seed: int
    invariant: str
    kind: str
    what: str


@dataclass
class Summary:
    """What seeds showed together."""

    seeds: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Of all processes, without their start."""
    found: list[Found] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    interrupted: bool = False
    """Not all seeds were run."""

    def text(self) -> str:
        """Return it in words."""
        speed, cpu = self.seeds / max(self.seconds, 1e-9), 1000 * self.cpu_seconds / max(self.seeds, 1)
        lines = [
            f"{self.seeds} seeds in {self.seconds:.1f} s, {speed:.0f} a second"
            + (f", {cpu:.0f} ms of CPU each" if cpu else "")
            + (", then interrupted" if self.interrupted else "")
        ]
        counts = Counter(f.kind for f in self.found)
        for kind, count in sorted(counts.items(), key=lambda item: (item[0][:2], -item[1])):
            first = min((f for f in self.found if f.kind == kind), key=lambda f: f.seed)
            lines.append(f"{count} times, first in seed {first.seed}: {first.what}")
        lines.append(f"{len({f.seed for f in self.found})} seeds with a violation" if counts else "no violation")
        return "\n".join(lines)


def script_of(seed: int) -> tuple[Action, ...]:
    """Return what happens in a seed: a directed script in every second one, else up to eight actions, none in one of ten.

    Seeds from ``ADDED_FROM`` on may have one or two of the actions that came later, too.
    """
    if state_of(seed) is not None:
        script = directed(seed)
    else:
        rng = random.Random(f"script {seed}")
        script = tuple(random_actions(rng, 0 if rng.random() < 0.1 else rng.randint(1, 8)))
    return script if seed < ADDED_FROM else with_added(random.Random(f"added {seed}"), script)


def run_seed(seed: int, *, twice: bool = True, coverage: Coverage | None = None) -> list[Found]:
    """Run a seed and return what it showed."""
    return run_script(seed, script_of(seed), twice=twice, coverage=coverage)


def run_script(
    seed: int, script: Sequence[Action], *, twice: bool = True, coverage: Coverage | None = None
) -> list[Found]:
    """Run a script in the scenario of a seed and return what it showed."""
    try:
        with _at_most(MOST_SECONDS):
            trial = run_trial(scenario(seed), script, coverage=coverage)
            found = [Found(seed, v.invariant, v.kind, str(v)) for v in trial.violations]
            if twice and trial.fingerprint != run_trial(scenario(seed), script, watched=False).fingerprint:
                found.append(Found(seed, "twice", "twice", "the same script gave another story the second time"))
    except (Exception, StandsStill, TooLongError) as error:  # noqa: BLE001 - reported with its seed
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        what = f"{type(error).__name__}: {error} ({where})"
        invariant = "I4" if isinstance(error, (StandsStill, TooLongError, TooManyEventsError)) else "simulator"
        return [Found(seed, invariant, f"{invariant}: {type(error).__name__} {where}", what)]
    return found


class TooLongError(BaseException):
    """A seed took more seconds than any should; no ``Exception``, so that nothing in the product catches it."""


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Ignore Ctrl-C here, and for good in the processes that are started meanwhile."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def stop(_signal: int, _frame: object) -> None:
        raise TooLongError(f"more than {seconds:.0f} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def run_seeds(seeds: Iterable[int], *, jobs: int = 2, progress: Callable[[Summary], object] | None = None) -> Summary:
    """Run seeds in processes of their own: what the simulation replaces in the product stays replaced there.

    At Ctrl-C the seeds under way are ended, and the summary is of those that were run.
    """
    begun, summary = time.monotonic(), Summary()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_ready) as pool:
        with _ctrl_c_ignored():
            chunks = [pool.submit(_run_chunk, chunk) for chunk in _chunks(list(seeds))]
        try:
            for done in as_completed(chunks):
                count, cpu_seconds, found, coverage = done.result()
                summary.seeds += count
                summary.cpu_seconds += cpu_seconds
                summary.found += found
                summary.coverage.add(coverage)
                summary.seconds = time.monotonic() - begun
                if progress is not None:
                    progress(summary)
        except KeyboardInterrupt:
            summary.interrupted = True
            pool.shutdown(cancel_futures=True)
    summary.found.sort(key=lambda f: (f.seed, f.invariant))
    return summary


def run_exhaustive(disk: Kind, *, every: int = 1, first: int = 0) -> Summary:
    """Run the exhaustive pass, or every n-th case of it, in a process of its own."""
    begun = time.monotonic()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_ready) as pool:
        count, found = pool.submit(_exhaustive, disk, every, first).result()
    return Summary(count, time.monotonic() - begun, found=found)


def run_two_tries(*, every: int = 1, only_writes: bool = False, jobs: int = 1) -> Summary:
    """Run the cases of two tries at once, or every n-th of them, in processes of their own."""
    begun = time.monotonic()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_ready) as pool:
        parts = [pool.submit(_two_tries, every * jobs, every * job, only_writes) for job in range(jobs)]
        counts, found = zip(*(part.result() for part in parts), strict=True)
    return Summary(sum(counts), time.monotonic() - begun, found=[each for part in found for each in part])


def _ready() -> None:
    """Begin a process: what is imported is never rubbish; the rest is looked through less often than Python does."""
    from tests.simulation.seam import install
    from tests.simulation.structure import shapes

    install()
    shapes()
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


def _exhaustive(disk: Kind, every: int, first: int) -> tuple[int, list[Found]]:
    from tests.simulation.exhaustive import run_all

    return run_all(disk, every=every, first=first)


def _two_tries(every: int, first: int, only_writes: bool) -> tuple[int, list[Found]]:
    from tests.simulation.two_tries import run_all

    return run_all(every=every, first=first, only_writes=only_writes)


def _run_chunk(seeds: list[int]) -> tuple[int, float, list[Found], Coverage]:
    coverage, begun = Coverage(), time.process_time()
    found = [f for seed in seeds for f in run_seed(seed, coverage=coverage)]
    return len(seeds), time.process_time() - begun, found, coverage


def profile_seeds(seeds: Iterable[int]) -> None:
    """Run seeds in this process, once to warm it up, and print where their time goes."""
    _ready()
    chosen, profile = list(seeds), cProfile.Profile()
    _run_chunk(chosen[:10])
    profile.runcall(_run_chunk, chosen)
    stats = pstats.Stats(profile)
    print(f"{stats.total_calls / len(chosen) / 2:.0f} calls of functions per run; a seed is two runs")  # type: ignore[attr-defined]
    stats.sort_stats("tottime").print_stats(40)


def _chunks(seeds: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(seeds), CHUNK):
        yield seeds[start : start + CHUNK]
