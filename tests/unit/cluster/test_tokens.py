"""Bearer tokens from a token endpoint, against a real one on this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from tests.token_endpoint import Endpoint, Reply

from kafka_reassignment.cluster.kafka.tokens import OAuthToken, OidcTokens, TokensOfCallback
from kafka_reassignment.errors import ClusterUnavailableError, NotAuthorizedError

pytestmark = pytest.mark.longer


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    threading.Thread(target=endpoint.server.serve_forever, daemon=True).start()
    yield endpoint
    endpoint.server.shutdown()
    endpoint.server.server_close()


@pytest.fixture
def source(endpoint: Endpoint) -> Callable[[], OidcTokens]:
    return lambda: OidcTokens(
        url=endpoint.url, client_id="mover", client_secret="hunter2", scope="kafka", extensions={"cluster": "c1"}
    )


def test_the_client_shows_its_id_and_secret_and_gets_a_token(
    endpoint: Endpoint, source: Callable[[], OidcTokens]
) -> None:
    tokens = source()
    assert tokens.token() == "token-1"
    assert tokens.extensions() == {"cluster": "c1"}
    assert endpoint.asked == [("Basic bW92ZXI6aHVudGVyMg==", "grant_type=client_credentials&scope=kafka")]


def test_a_token_is_kept_until_shortly_before_it_expires(endpoint: Endpoint, source: Callable[[], OidcTokens]) -> None:
    tokens = source()
    tokens.token()
    assert tokens.token() == "token-1"
    assert len(endpoint.asked) == 1
    endpoint.reply = (200, {"access_token": "token-2", "expires_in": 20})
    short = source()
    short.token()
    endpoint.reply = (200, {"access_token": "token-3", "expires_in": 3600})
    assert short.token() == "token-3"


def test_refused_credentials_are_reported_without_the_secret(
    endpoint: Endpoint, source: Callable[[], OidcTokens]
) -> None:
    endpoint.reply = (401, {"error": "invalid_client"})
    with pytest.raises(NotAuthorizedError, match=r"refused the client credentials \(HTTP 401\)") as refused:
        source().token()
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("status", [401, 500])
def test_a_url_is_shown_without_what_may_be_a_secret_in_it(endpoint: Endpoint, status: int) -> None:
    endpoint.reply = (status, {})
    url = endpoint.url.replace("http://", "http://mover:hunter2@") + "?code=hunter2#hunter2"
    with pytest.raises((NotAuthorizedError, ClusterUnavailableError)) as failed:
        OidcTokens(url=url, client_id="a", client_secret="b").token()
    assert f"Token endpoint {endpoint.url} " in str(failed.value)
    assert "hunter2" not in str(failed.value)


def test_an_endpoint_whose_port_is_no_number_gives_no_token() -> None:
    with pytest.raises(ClusterUnavailableError, match="gave no token: Invalid port"):
        OidcTokens(url="http://127.0.0.1:https/token", client_id="a", client_secret="b").token()


@pytest.mark.parametrize(
    "reply",
    [(500, {}), (429, {}), (404, {}), (200, {"no": "token"}), (200, b"<html>"), (200, [])],
    ids=["500", "429", "404", "empty", "html", "list"],
)
def test_an_endpoint_that_gives_no_token_is_unavailable(
    endpoint: Endpoint, source: Callable[[], OidcTokens], reply: Reply
) -> None:
    endpoint.reply = reply
    with pytest.raises(ClusterUnavailableError, match=r"gave no token: .*Try again"):
        source().token()


def test_an_endpoint_that_is_not_there_is_unavailable() -> None:
    tokens = OidcTokens(url="http://127.0.0.1:9/token", client_id="a", client_secret="b")
    with pytest.raises(ClusterUnavailableError, match="gave no token"):
        tokens.token()


def test_an_endpoint_that_is_no_web_address_is_refused() -> None:
    tokens = OidcTokens(url="file:///etc/passwd", client_id="a", client_secret="b")
    with pytest.raises(NotAuthorizedError, match="expected http or https, found file"):
        tokens.token()


def test_a_callback_is_read_as_confluent_kafka_reads_it() -> None:
    assert OAuthToken.of_reply(("t", 12)) == OAuthToken("t", 12.0)
    assert OAuthToken.of_reply(("t", 12.5, "principal", {"a": "b"})) == OAuthToken("t", 12.5, {"a": "b"})
    assert "hunter2" not in repr(OAuthToken("hunter2", 1.0))
    tokens = TokensOfCallback(lambda: OAuthToken("fresh", 4e9))
    assert tokens.token() == "fresh"
