"""Packs steps into batches within KIP-435's P and L and a byte target, so that the brokers of a batch are equally busy.

Terms: a step's *sender* is the broker it copies from (the leader), its *receivers* are the brokers that
get a new replica. A batch is *level* when its busiest sender has at most 1.10 times the mean of the
brokers that send in it, and its busiest receiver likewise: then the batch does not wait for one broker alone.

A batch takes leader movements first. Then it takes steps of nearly one size, so that each sender has the same
number of steps (m or 1), and each receiver too (1 or m). Steps that copy nothing fill the rest of the batch. A
batch that needs a longer list of throttled replicas than Kafka takes (32,767 bytes per topic and side) is cut into several. A
few steps of many sizes cannot be packed like this. They are packed by total size, and then exchanged between
batches as long as that levels the batches.
"""

from kafka_reassignment.decisions.batching.columns import NOBODY, StepColumns
from kafka_reassignment.decisions.batching.packing import batches_of, pack, within_limit
from kafka_reassignment.decisions.batching.throttle_lists import split_long_lists, throttle_lists

__all__ = ["NOBODY", "StepColumns", "batches_of", "pack", "split_long_lists", "throttle_lists", "within_limit"]
