"""What benchmarks share that run the steps of a batch themselves: the looks of a waiting step, and a table of rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from tests.steps_lab import Run, StillWaiting, require_done

from kafka_reassignment.steps.base.waiting import SizeSamples

LOOK_SECONDS = 10.0
"""Between two looks, as the sensor waits by default."""


def look_until_done(run: Run, name: str, number: int, waits: Callable[[str], None]) -> None:
    """Look until a waiting step of a batch is done; ``waits`` gets the text of each look that is not the last."""
    samples, began = SizeSamples.by_clock_of(run.context), run.clock.now
    while True:
        try:
            require_done(run.look(name, number, started_at=began, samples=samples))
        except StillWaiting as still:
            waits(str(still))
            time.sleep(LOOK_SECONDS)
        else:
            return


def show_rows(title: str, rows: Sequence[Mapping[str, object]], without: frozenset[str] = frozenset()) -> None:
    """Print rows of the same columns as a table on stderr, without some of the columns."""
    names = [name for name in rows[0] if name not in without]
    table = Table(title=title)
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(str(row[name]) for name in names))
    Console(stderr=True).print(table)
