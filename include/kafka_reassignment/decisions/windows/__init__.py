"""Maintenance windows: when batches may run, and whether one that starts now ends in time.

``occurrences`` says when the windows of a request are open, ``fit`` whether a batch fits, ``estimate`` how long it
takes. The spec of the windows, its rules and its clock belong to the request (``request.windows``).
"""

from kafka_reassignment.decisions.windows.fit import Fit, NoEnd, StartDecision, finishes, fits
from kafka_reassignment.decisions.windows.occurrences import (
    occurrences,
    past_deadline,
    refuse_never_open,
    window_status,
)
from kafka_reassignment.request.windows.spec import MaintenanceWindows

__all__ = [
    "Fit",
    "MaintenanceWindows",
    "NoEnd",
    "StartDecision",
    "finishes",
    "fits",
    "occurrences",
    "past_deadline",
    "refuse_never_open",
    "window_status",
]
