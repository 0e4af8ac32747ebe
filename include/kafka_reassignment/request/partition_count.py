"""What a person asks for when a topic is to have more partitions (KIP-179)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kafka_reassignment.errors import InvalidPartitionsError, InvalidRequestError
from kafka_reassignment.request.messages import parse, request_error_class
from kafka_reassignment.request.names import (
    DEFAULT_KAFKA_CONNECTION_ID,
    BrokerIds,
    KafkaConnectionId,
    each_named_once,
)


class PartitionCountRequest(BaseModel):
    """A topic is to have this many partitions. Kafka can add partitions, never take them away."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kafka_conn_id: KafkaConnectionId = DEFAULT_KAFKA_CONNECTION_ID
    topic: str = Field(
        min_length=1, max_length=249, pattern=r"^[A-Za-z0-9._-]+$", title="Topic", description="Name of the topic."
    )
    partitions: int = Field(
        ge=2,
        le=1_000_000,
        strict=True,
        title="Partitions",
        description="Number of partitions that the topic will have, including those that it has now.",
    )
    exclude_brokers: BrokerIds = Field(
        default=(),
        title="Exclude brokers",
        description="Broker ids, such as 4, 5 or 1-3, 7, that get no new partition, for example brokers that will be emptied soon.",
    )
    validate_only: bool = Field(
        default=False,
        title="Validate only",
        description="Report what would be added, checked by the cluster. Add nothing.",
    )

    @property
    def asked(self) -> dict[str, Any]:
        """The params of a run that asks for the same."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @field_validator("exclude_brokers")
    @classmethod
    def _named_once(cls, brokers: tuple[int, ...]) -> tuple[int, ...]:
        return each_named_once(brokers, "broker")


def parse_partition_count(fields: dict[str, Any]) -> PartitionCountRequest:
    """Read a request from the form or the API; a field that is None counts as left out.

    Raises:
        InvalidPartitionsError: what is wrong is the count.
        DuplicatePartitionError: a broker is named twice.
        InvalidRequestError: anything else; each time one message for all that is wrong.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    return parse(PartitionCountRequest, given, subject="The request", error_class=_error_class)


def _error_class(invalid: ValidationError) -> type[InvalidRequestError]:
    about_count = any(problem["loc"][:1] == ("partitions",) for problem in invalid.errors())
    return InvalidPartitionsError if about_count else request_error_class(invalid)
