"""Changing the dynamic default config of all brokers (KIP-226), by kafka-python.

confluent-kafka 2.16.1 cannot name it: a broker resource with the name "" raises ``Invalid ConfigResource(4,)``, and
with any name that is no number ``_INVALID_ARG``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka.protocol.admin import IncrementalAlterConfigsRequest

from kafka_reassignment.cluster.kafka.errors import Right, raise_if_general, refusal_of
from kafka_reassignment.cluster.kafka.protocol import ProtocolConversation
from kafka_reassignment.errors import ClusterUnavailableError, NothingSentError
from kafka_reassignment.model import DEFAULT_OF_BROKERS, ConfigChange, ConfigOperation, Refusal

_BROKER = 4
_OPERATIONS = {
    ConfigOperation.SET: 0,
    ConfigOperation.DELETE: 1,
    ConfigOperation.APPEND: 2,
    ConfigOperation.SUBTRACT: 3,
}


def alter_default(
    conversation: ProtocolConversation, changes: Sequence[ConfigChange], *, seconds: float
) -> Refusal | None:
    """Change the default of all brokers in one request.

    Raises:
        NothingSentError: it could not be sent.
        ClusterUnavailableError: no answer; the changes may have been applied or not.
    """
    row = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        row.AlterableConfig(name=c.key, config_operation=_OPERATIONS[c.operation], value=c.value) for c in changes
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[row(resource_type=_BROKER, resource_name="", configs=configs)], validate_only=False
    )
    try:
        [result] = conversation.ask(request, seconds=seconds).responses
    except NothingSentError:
        raise
    except ClusterUnavailableError as lost:
        raise ClusterUnavailableError(
            f"No answer to the changes of {DEFAULT_OF_BROKERS} ({lost}). They may have been applied or not: "
            "describe the configs and compare before asking again."
        ) from None
    doing = f"changing configs of {DEFAULT_OF_BROKERS}"
    raise_if_general(result.error_code, result.error_message, doing, Right.ALTER_CONFIGS_CLUSTER)
    return refusal_of(result.error_code, result.error_message)
