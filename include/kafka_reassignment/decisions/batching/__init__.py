"""Packs steps into batches, within KIP-435's P and L, so that the whole chain of batches ends early.

Batches run one after the other, and each lasts as long as its busiest broker copies. So the chain takes the sum of that
over the batches, and a few seconds more for each batch. It can't be shorter than the time that the busiest broker of
the whole plan needs, nor than the sum of the largest copies when each batch takes P partitions of the next size.

A *copy* is a step that adds replicas: the leader sends, each new replica receives. The *height* of a batch is the time
that its busiest sender or receiver needs. Copies are placed one after the other, large ones and those of busy brokers
first, each into the batch whose height it raises least. Steps that copy nothing fill the rest. A batch that needs a
longer list of throttled replicas than Kafka takes (32,767 bytes per topic and side) is cut into several.
"""

from kafka_reassignment.decisions.batching.columns import NOBODY, StepColumns
from kafka_reassignment.decisions.batching.least import Least, chain_seconds, fewest_batches, least_seconds
from kafka_reassignment.decisions.batching.packing import (
    batches_of,
    chunks_of,
    pack,
    to_need_fewer_batches,
    within_limit,
)
from kafka_reassignment.decisions.batching.rates import BatchRates
from kafka_reassignment.decisions.batching.throttle_lists import split_long_lists, throttle_lists

__all__ = [
    "NOBODY",
    "BatchRates",
    "Least",
    "StepColumns",
    "batches_of",
    "chain_seconds",
    "chunks_of",
    "fewest_batches",
    "least_seconds",
    "pack",
    "split_long_lists",
    "throttle_lists",
    "to_need_fewer_batches",
    "within_limit",
]
