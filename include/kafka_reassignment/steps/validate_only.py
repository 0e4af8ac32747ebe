"""Validate only (KIP-179): everything but the submit, and exactly what would be done."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kafka_reassignment.errors import DeadlinePassedError, InfeasiblePlanError, name_some
from kafka_reassignment.model import Batch, Replicas, TopicPartition
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.admission import why_held
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import SizeSamples
from kafka_reassignment.steps.throttle import throttle_changes
from kafka_reassignment.steps.throttling.throttle_configs import str_change
from kafka_reassignment.versioned import VERSION

WOULD_DO = "would-do.jsonl"


def what_would_be_done(run: RunContext) -> str:
    """Write one line of JSON per batch into the record, and return the first of them in words.

    Each has the throttle configs that would change as the cluster is now, the expansions and then the targets
    that would be submitted. Nothing is set, journalled or submitted.
    """
    batches = run.plan().batches
    lines = []
    for number in range(1, batches + 1):
        batch = run.batch(number)
        lines.append(json.dumps({"version": VERSION, "batch": number} | _of_batch(run, batch)))
    uri = run.record.write_file(WOULD_DO, "".join(f"{line}\n" for line in lines).encode())
    if not batches:
        return "Nothing would be done: the cluster is as asked for"
    first = json.loads(lines[0])
    text = [
        f"{batches} batches would be run; what each would do: {uri}",
        _when_it_would_start(run),
        f"it would change {len(first['throttle'])} throttle configs: {name_some(first['throttle'], 4)}"
        if first["throttle"]
        else "it would set no throttle",
        f"then submit {name_some(_shown(first['expand']), 5)}" if first["expand"] else "it would copy nothing",
        f"and, with all of it in sync, {name_some(_shown(first['target']), 5)}",
    ]
    return "\n".join(text)


def _when_it_would_start(run: RunContext) -> str:
    """Say it of the first batch. That it can never start is an answer too: advice would be about runs that a validation has not."""
    try:
        reasons = why_held(run, RecordView(run.record), run.batch(1), SizeSamples()).reasons
    except InfeasiblePlanError as error:
        return error.problem
    except DeadlinePassedError as error:
        return f"Batch 1 can never start: {error.problem}"
    return f"Batch 1 would wait now: {name_some(reasons)}" if reasons else "Batch 1 would start at once"


def _of_batch(run: RunContext, batch: Batch) -> dict[str, object]:
    return {
        "bytes_to_copy": batch.bytes_to_copy,
        "throttle": [str_change(change) for change in throttle_changes(run, batch)],
        "expand": _plain({s.partition: s.reassignment.expanded for s in batch.steps if s.reassignment.adding}),
        "target": _plain({s.partition: s.reassignment.target for s in batch.steps}),
    }


def _plain(targets: Mapping[TopicPartition, Replicas]) -> dict[str, list[int]]:
    return {str(p): list(replicas) for p, replicas in targets.items()}


def _shown(targets: Mapping[str, list[int]]) -> list[str]:
    return [f"{p} to {','.join(map(str, replicas))}" for p, replicas in targets.items()]
