"""What the matrix has found: a JSON file beside the documentation, and the tables that are made from it."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.matrix.cells import CELLS, Cell

from kafka_lab.airflow import PROJECT

FILE = PROJECT / "docs" / "versions.json"
PAGE = PROJECT / "docs" / "versions.md"
HEADS = {
    "contract": "contract suite",
    "reassignment": "a whole reassignment",
    "quick": "in-process tests",
    "reassignments": "reassignments on brokers",
}


@dataclass(frozen=True, slots=True)
class Result:
    """How one part ended. ``left_out`` counts skipped tests by reason; ``failed`` names tests."""

    passed: int
    failed: list[str]
    left_out: dict[str, int] = field(default_factory=dict)
    minutes: float = 0.0
    day: str = ""

    @property
    def ok(self) -> bool:
        """Whether something was run, and all of it passed."""
        return bool(self.passed) and not self.failed

    @property
    def text(self) -> str:
        """For people."""
        if self.failed:
            return f"**{len(self.failed)} failed**, {self.passed} passed"
        return f"{self.passed} passed" if self.passed else "**nothing was run**"


Results = dict[str, dict[str, Result]]
"""By the cell's name and the part's."""


def of_report(junit: Path, returned: int, minutes: float) -> Result:
    """Read a report of pytest; an exit code without a failed test, or no report at all, counts as a failure."""
    passed, failed, left_out = 0, [], Counter[str]()
    for case in ET.parse(junit).iter("testcase") if junit.exists() else ():
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}")
        elif skipped is not None:
            left_out[re.sub(r"^Kafka \S+: ", "", skipped.get("message") or "")] += 1
        else:
            passed += 1
    if returned and not failed:
        failed.append(f"pytest ended with {returned}")
    today = datetime.now(UTC).date().isoformat()
    return Result(passed, sorted(set(failed)), dict(sorted(left_out.items())), round(minutes, 1), today)


def read() -> Results:
    """Return what was found so far."""
    if not FILE.exists():
        return {}
    found = json.loads(FILE.read_text(encoding="utf-8"))
    return {cell: {part: Result(**result) for part, result in parts.items()} for cell, parts in found.items()}


def keep(cell: Cell, part: str, result: Result) -> None:
    """Write a result over the earlier one of the same part, and then the tables of the page."""
    results = read()
    results.setdefault(cell.name, {})[part] = result
    ordered = {
        c.name: {p.name: results[c.name][p.name] for p in c.parts if p.name in results[c.name]}
        for c in CELLS
        if c.name in results
    }
    written = {c: {p: asdict(r) for p, r in parts.items()} for c, parts in ordered.items()}
    FILE.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), ordered), encoding="utf-8")


def with_tables(page: str, results: Mapping[str, Mapping[str, Result]]) -> str:
    """Return the page with the tables of these results between its marks."""
    for system in ("Kafka", "Airflow"):
        begin, end = f"<!-- {system}: made by make matrix -->\n", f"<!-- {system}: end -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}{table(system, results)}{end}{after}"
    return page


def table(system: str, results: Mapping[str, Mapping[str, Result]]) -> str:
    """A row per version of Kafka or of Airflow, a column per part; below it what was left out, with reasons."""
    cells = [c for c in CELLS if c.system == system]
    parts = [p.name for p in cells[0].parts]
    lines = [f"| {system} | {' | '.join(HEADS[p] for p in parts)} | run on |", "|-|" + "-|" * (len(parts) + 1)]
    reasons: dict[str, dict[str, int]] = {}
    for cell in cells:
        found = results.get(cell.name, {})
        shown = [found[p].text if p in found else "not run" for p in parts]
        days = sorted({found[p].day for p in parts if p in found})
        release, _, mode = cell.version.partition("-")
        title = f"{release} {'with ZooKeeper' if mode == 'zookeeper' else 'with KRaft'}" if mode else release
        lines.append(f"| {title} | {' | '.join(shown)} | {', '.join(days) or '–'} |")
        for part in parts:
            for reason, count in found[part].left_out.items() if part in found else ():
                reasons.setdefault(reason, {}).setdefault(title, 0)
                reasons[reason][title] += count
    lines.append("")
    if reasons:
        lines += ["Tests that were left out, and why:", "", "| why | where, and how many tests |", "|-|-|"]
        for reason, where in sorted(reasons.items()):
            lines.append(f"| {reason} | {'; '.join(f'{t}: {n}' for t, n in where.items())} |")
        lines.append("")
    return "\n".join(lines) + "\n"
