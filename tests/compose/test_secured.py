"""The certificates of the secured cluster."""

import json
import ssl
import stat

import pytest
from cryptography import x509

from kafka_lab.compose import secured

pytestmark = pytest.mark.quick


@pytest.fixture
def folders(tmp_path):
    keys, ca = tmp_path / "keys", tmp_path / "ca"
    keys.mkdir()
    ca.mkdir()
    secured.keys(keys, ca)
    return keys, ca


def test_brokers_have_a_certificate_of_all_their_names_that_the_authority_signed(folders):
    keys, ca = folders
    authority = x509.load_pem_x509_certificate((ca / "ca.pem").read_bytes())
    broker = x509.load_pem_x509_certificate((keys / "broker.pem").read_bytes())
    broker.verify_directly_issued_by(authority)
    names = broker.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert tuple(names.get_values_for_type(x509.DNSName)) == secured.BROKERS
    ssl.create_default_context(cafile=str(ca / "ca.pem")).load_cert_chain(keys / "broker.pem")


def test_keys_are_for_those_who_need_them_and_what_connects_gets_the_authority_alone(folders):
    keys, ca = folders
    assert stat.S_IMODE((keys / "broker.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE((keys / "lab.pem").stat().st_mode) == 0o640
    assert [file.name for file in ca.iterdir()] == ["ca.pem"]
    assert b"PRIVATE" not in (ca / "ca.pem").read_bytes()


def test_the_lab_connects_with_files_that_are_there(folders):
    keys, _ = folders
    client = json.loads((keys / secured.LAB).read_text())
    assert client["bootstrap.servers"].split(",") == [f"{broker}:9094" for broker in secured.BROKERS]
    for key in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"):
        assert (keys / client[key].rsplit("/", 1)[1]).exists()


def test_what_is_there_stays(folders):
    keys, ca = folders
    before = {file: file.read_bytes() for folder in folders for file in folder.iterdir()}
    secured.keys(keys, ca)
    assert {file: file.read_bytes() for file in before} == before
