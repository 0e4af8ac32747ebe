"""Places by URI: what opens them, and what is said where nothing can."""

from types import SimpleNamespace

import pytest
from upath import UPath

from kafka_reassignment import places
from kafka_reassignment.errors import InvalidRequestError, RecordStoreUnusableError
from kafka_reassignment_airflow.hooks import record

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("uri", "names_one"),
    [
        ("s3://conn@bucket/folder", True),
        ("gs://conn@bucket", True),
        ("s3://bucket/a@b", False),
        ("/folder/a@b", False),
        ("file:///folder/a@b", False),
    ],
)
def test_a_uri_names_a_connection_in_place_of_a_user(uri, names_one):
    assert places.names_connection(uri) is names_one


@pytest.mark.parametrize(
    ("uri", "on_disk"), [("/a", True), ("file:///a", True), ("s3://b/a", False), ("memory://b", False)]
)
def test_a_place_is_on_a_disk_or_in_a_store(uri, on_disk):
    assert places.is_on_disk(uri) is on_disk


def test_the_error_of_a_missing_client_library_names_the_extra(monkeypatch):
    def missing(uri):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(places, "UPath", missing)
    for scheme, extra in (("s3", "s3"), ("gs", "gcs"), ("abfs", "azure")):
        with pytest.raises(
            RecordStoreUnusableError,
            match=rf"{scheme}://bucket/r cannot be opened here: expected a client library for {scheme}://, found none\. "
            rf'Install it on every component of Airflow: pip install "kafka-reassignment\[{extra}\]"',
        ):
            places.place(f"{scheme}://bucket/r")


def test_a_connection_needs_the_part_for_airflow(monkeypatch):
    monkeypatch.setattr(places, "_opener", lambda: None)
    with pytest.raises(RecordStoreUnusableError, match="s3://conn@bucket names an Airflow connection, expected"):
        places.place("s3://conn@bucket")


def test_what_is_installed_for_airflow_opens_places_and_tables(monkeypatch):
    opened = SimpleNamespace(fs=object(), path="bucket/folder")
    monkeypatch.setattr(places, "_opener", lambda: lambda uri: opened)
    assert places.place("s3://conn@bucket/folder") is opened
    assert places.filesystem("s3://conn@bucket/folder") == (opened.fs, "bucket/folder")


def test_a_plain_path_is_a_place_too(tmp_path):
    assert places.place(str(tmp_path)) == UPath(tmp_path)
    assert places.filesystem(f"file://{tmp_path}")[1] == str(tmp_path)
    assert isinstance(places.place("memory://bucket"), UPath)


def test_a_connection_that_does_not_exist_is_named_by_airflows_part():
    with pytest.raises(InvalidRequestError, match="Record store connection 'no_such_one' was not found"):
        places.place("s3://no_such_one@bucket/folder")


def test_a_store_without_its_provider_names_the_extra(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SOME", "generic://")
    with pytest.raises(RecordStoreUnusableError, match=r'pip install "kafka-reassignment\[azure\]"'):
        places.place("abfs://some@bucket/folder")


def test_a_google_connection_needs_googles_provider_which_no_extra_has(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SOME", "generic://")
    with pytest.raises(
        RecordStoreUnusableError, match=r"expected Airflow's provider for Google, found none\. .*providers-google>=20"
    ):
        places.place("gs://some@bucket/folder")


def test_a_google_connection_whose_token_ends_before_a_reassignment_does_is_refused(monkeypatch):
    """As the provider opened them before its release 20.0.0; a file system with renewed credentials is taken."""
    monkeypatch.setenv("AIRFLOW_CONN_SOME", "generic://")
    monkeypatch.setattr(record, "has_fs", lambda _protocol: True)
    opened = SimpleNamespace(storage_options={"token": "ya29.text"})
    monkeypatch.setattr(record.ObjectStoragePath, "fs", property(lambda _path: opened))
    with pytest.raises(RecordStoreUnusableError, match=r"found an access token of an hour.*providers-google>=20"):
        record.open_place.__wrapped__("gs://some@bucket/folder")
    opened.storage_options["token"] = object()
    assert record.open_place.__wrapped__("gs://some@bucket/folder").fs is opened
