"""Packs steps into batches within KIP-435's P and L and a byte target, so that the brokers of a batch are equally busy.

Terms: a step's *sender* is the broker it copies from (the leader), its *receivers* are the brokers that
get a new replica. A batch is *level* when its busiest sender has at most 1.10 times the mean of the
brokers that send in it, and its busiest receiver likewise: then the batch does not wait for one broker alone.

A batch takes leader movements first. Of the steps that copy it takes some of nearly one size, an equal
number for each broker that takes part: as many senders with m steps each as there are, to receivers with
one step each, or the other way round, or m on both sides. Steps that copy nothing fill what is left. Few
steps of many sizes cannot be packed so; they are packed by total size, and then exchanged between batches
while that levels them.
"""

from kafka_reassignment.decisions.batching.columns import NOBODY, StepColumns
from kafka_reassignment.decisions.batching.packing import batches_of, pack, within_limit

__all__ = ["NOBODY", "StepColumns", "batches_of", "pack", "within_limit"]
