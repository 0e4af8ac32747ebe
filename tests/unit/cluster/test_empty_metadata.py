"""A broker that has just started may answer before it knows who is in the cluster: that is no answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.cluster.scripted_broker import METADATA, ScriptedBroker, metadata

from kafka_reassignment.cluster import ClusterSettings
from kafka_reassignment.cluster.kafka.protocol import ProtocolConversation
from kafka_reassignment.errors import ClusterUnavailableError

pytestmark = pytest.mark.longer


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker().running() as broker:
        yield broker


@pytest.fixture
def nobody_or_no_id(request: pytest.FixtureRequest, broker: ScriptedBroker) -> None:
    knows_nobody, knows_no_id = metadata(), metadata((1, broker.port), cluster_id=None)
    broker.answers[METADATA] = knows_nobody if request.param == "nobody" else knows_no_id


def settings(*brokers: ScriptedBroker) -> ClusterSettings:
    return ClusterSettings.of({"bootstrap.servers": ",".join(b.server for b in brokers)}, name="my_kafka")


@pytest.mark.parametrize("nobody_or_no_id", ["nobody", "no id"], indirect=True)
@pytest.mark.usefixtures("nobody_or_no_id")
def test_a_broker_that_does_not_know_the_cluster_yet_is_not_believed(broker: ScriptedBroker) -> None:
    with (
        pytest.raises(
            ClusterUnavailableError, match=r"No broker of connection 'my_kafka'.*does not know yet who is in"
        ),
        ProtocolConversation(settings(broker)),
    ):
        pass


@pytest.mark.parametrize("nobody_or_no_id", ["nobody", "no id"], indirect=True)
@pytest.mark.usefixtures("nobody_or_no_id")
def test_the_next_server_is_asked_instead(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.shuffle", lambda servers: None)
    with ScriptedBroker().running() as good, ProtocolConversation(settings(broker, good)) as conversation:
        assert conversation.cluster_id == "c1"
        assert conversation.brokers.keys() == {1}


def test_a_kept_conversation_is_given_up_whose_broker_forgot_the_cluster(broker: ScriptedBroker) -> None:
    with ProtocolConversation(settings(broker)) as conversation:
        assert conversation.is_usable_again()
        broker.answers[METADATA] = metadata()
        assert not conversation.is_usable_again()
