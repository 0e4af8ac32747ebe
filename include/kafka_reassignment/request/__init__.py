"""What people ask for: reassignments, their limits and maintenance windows, and partition counts."""

from kafka_reassignment.request.limits import PACES, Limits, parse_limits
from kafka_reassignment.request.partition_count import PartitionCountRequest, parse_partition_count
from kafka_reassignment.request.rate import LOWEST_RATE_MB, MEGABYTE
from kafka_reassignment.request.reassignment import Job, ReassignmentRequest, balances_bytes, parse_request
from kafka_reassignment.request.written import written_requests

__all__ = [
    "LOWEST_RATE_MB",
    "MEGABYTE",
    "PACES",
    "Job",
    "Limits",
    "PartitionCountRequest",
    "ReassignmentRequest",
    "balances_bytes",
    "parse_limits",
    "parse_partition_count",
    "parse_request",
    "written_requests",
]
