"""The replication throttle (KIP-73): what to set, the journal of what was there before, and how to restore it (KIP-179).

``wanted`` is the throttle that a batch needs, ``journal`` what has to be restored, ``needed`` what must not be restored
yet; ``set`` and ``clear`` compare them with the configs of now and return the changes that are left to make.
``underway`` keeps changes that may still arrive from being forgotten. ``length`` is about lists that are longer than
Kafka takes.
"""

from kafka_reassignment.decisions.throttle.clear import (
    Clearing,
    changes_to_restore,
    owed_texts_but,
    throttle_to_put_back,
)
from kafka_reassignment.decisions.throttle.journal import (
    Journal,
    ListRecord,
    LowerRate,
    RateRecord,
    new_rates_of_others,
    throttle_by_journal,
    union,
)
from kafka_reassignment.decisions.throttle.length import LONGEST_LIST_BYTES, TOO_LONG, TooLong, too_long
from kafka_reassignment.decisions.throttle.needed import (
    NOTHING,
    Needed,
    all_of,
    listed_in,
    needed_replicas,
    without_new_of,
)
from kafka_reassignment.decisions.throttle.set import (
    HIDDEN,
    UNREADABLE,
    SeenConfigs,
    changes_to_throttle,
    confirmed,
    lower_rates,
    missing_throttle,
    without_raises,
)
from kafka_reassignment.decisions.throttle.underway import (
    LATEST_ARRIVAL,
    arrived,
    begun,
    ended,
    is_cleared,
    unseen_of,
    without_older,
)
from kafka_reassignment.decisions.throttle.wanted import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    THROTTLE_KEYS,
    BrokerRate,
    Correction,
    RateChange,
    Side,
    ThrottledReplicas,
    WantedThrottle,
    covers,
    partition_of,
    replicas_listed,
    throttle_for,
    without_slowdowns,
)

__all__ = [
    "FOLLOWER_RATE",
    "FOLLOWER_REPLICAS",
    "HIDDEN",
    "LATEST_ARRIVAL",
    "LEADER_RATE",
    "LEADER_REPLICAS",
    "LONGEST_LIST_BYTES",
    "NOTHING",
    "THROTTLE_KEYS",
    "TOO_LONG",
    "UNREADABLE",
    "BrokerRate",
    "Clearing",
    "Correction",
    "Journal",
    "ListRecord",
    "LowerRate",
    "Needed",
    "RateChange",
    "RateRecord",
    "SeenConfigs",
    "Side",
    "ThrottledReplicas",
    "TooLong",
    "WantedThrottle",
    "all_of",
    "arrived",
    "begun",
    "changes_to_restore",
    "changes_to_throttle",
    "confirmed",
    "covers",
    "ended",
    "is_cleared",
    "listed_in",
    "lower_rates",
    "missing_throttle",
    "needed_replicas",
    "new_rates_of_others",
    "owed_texts_but",
    "partition_of",
    "replicas_listed",
    "throttle_by_journal",
    "throttle_for",
    "throttle_to_put_back",
    "too_long",
    "union",
    "unseen_of",
    "without_new_of",
    "without_older",
    "without_raises",
    "without_slowdowns",
]
