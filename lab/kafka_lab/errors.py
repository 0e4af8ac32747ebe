"""What goes wrong with a local cluster."""

from __future__ import annotations

from kafka_reassignment.errors import ReassignmentError


class LocalClusterError(ReassignmentError):
    """A local cluster cannot be fetched, started or steered; the message says what to do."""
