"""The replication throttle (KIP-73): what to set, a journal of what was there before, and putting it back (KIP-179).

``plan`` says what a batch needs, ``journal`` remembers what we owe, ``setting`` and ``clearing`` compare both with
the configs as they are and return the changes that are left to make.
"""

from kafka_reassignment.planning.throttle.clearing import Clearing, clear_throttle
from kafka_reassignment.planning.throttle.journal import Journal, ListRecord, RateRecord, union
from kafka_reassignment.planning.throttle.plan import (
    DELIVERED_SHARE,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    THROTTLE_KEYS,
    BrokerRate,
    Retarget,
    Side,
    ThrottledReplicas,
    ThrottlePlan,
    covers,
    throttle_for,
)
from kafka_reassignment.planning.throttle.setting import SeenConfigs, in_place, retarget, set_throttle

__all__ = [
    "DELIVERED_SHARE",
    "FOLLOWER_RATE",
    "FOLLOWER_REPLICAS",
    "LEADER_RATE",
    "LEADER_REPLICAS",
    "THROTTLE_KEYS",
    "BrokerRate",
    "Clearing",
    "Journal",
    "ListRecord",
    "RateRecord",
    "Retarget",
    "SeenConfigs",
    "Side",
    "ThrottlePlan",
    "ThrottledReplicas",
    "clear_throttle",
    "covers",
    "in_place",
    "retarget",
    "set_throttle",
    "throttle_for",
    "union",
]
