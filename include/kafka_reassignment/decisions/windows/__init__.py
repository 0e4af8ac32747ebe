"""Maintenance windows: when batches may run, and whether one that starts now ends in time.

``spec`` is what a person asks for, ``rules`` and ``clock`` what that means in time, ``openings`` when it is open,
``fitting`` whether a batch fits. ``estimate``, how long a batch takes, is imported by itself: it needs the rest of
planning, which the spec inside of a request must not.
"""

from kafka_reassignment.decisions.windows.fit import Fit, StartDecision, finishes, fits
from kafka_reassignment.decisions.windows.occurrences import (
    LOOK_AHEAD,
    Occurrence,
    WindowStatus,
    occurrences,
    refuse_never_open,
    refuse_past_deadline,
    window_status,
)
from kafka_reassignment.request.windows.spec import MaintenanceWindows

__all__ = [
    "LOOK_AHEAD",
    "Fit",
    "MaintenanceWindows",
    "Occurrence",
    "StartDecision",
    "WindowStatus",
    "finishes",
    "fits",
    "occurrences",
    "refuse_never_open",
    "refuse_past_deadline",
    "window_status",
]
