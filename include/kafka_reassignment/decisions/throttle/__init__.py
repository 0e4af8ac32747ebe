"""The replication throttle (KIP-73): what to set, the journal of what was there before, and how to restore it (KIP-179).

``wanted`` is the throttle that a batch needs, ``journal`` what has to be restored; ``set`` and ``clear`` compare them
with the configs of now and return the changes that are left to make.
"""

from kafka_reassignment.decisions.throttle.clear import Clearing, changes_to_restore
from kafka_reassignment.decisions.throttle.journal import Journal, ListRecord, RateRecord, union
from kafka_reassignment.decisions.throttle.set import (
    SeenConfigs,
    changes_to_throttle,
    missing_throttle,
)
from kafka_reassignment.decisions.throttle.wanted import (
    DELIVERED_SHARE,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    THROTTLE_KEYS,
    BrokerRate,
    RateChange,
    Side,
    ThrottledReplicas,
    WantedThrottle,
    covers,
    throttle_for,
)

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
    "RateChange",
    "RateRecord",
    "SeenConfigs",
    "Side",
    "ThrottledReplicas",
    "WantedThrottle",
    "changes_to_restore",
    "changes_to_throttle",
    "covers",
    "missing_throttle",
    "throttle_for",
    "union",
]
