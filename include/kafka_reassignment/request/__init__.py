"""What people ask for: reassignments, their limits and their maintenance windows."""

from kafka_reassignment.request.reassignment import (
    LOWEST_RATE_MB,
    MEGABYTE,
    Job,
    Limits,
    ReassignmentRequest,
    parse_limits,
    parse_request,
)

__all__ = [
    "LOWEST_RATE_MB",
    "MEGABYTE",
    "Job",
    "Limits",
    "ReassignmentRequest",
    "parse_limits",
    "parse_request",
]
