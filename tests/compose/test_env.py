"""``make env``."""

import base64
import stat
import subprocess
import sys

import pytest
from cryptography.fernet import Fernet

from kafka_lab.airflow import PROJECT
from kafka_lab.compose.env import EXAMPLE, filled

pytestmark = pytest.mark.quick

TEXT = (PROJECT / EXAMPLE).read_text()


def values(text):
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_each_empty_value_is_32_random_bytes_and_the_others_stay():
    first, second = values(filled(TEXT)), values(filled(TEXT))
    assert first.keys() == values(TEXT).keys()
    for name, given in values(TEXT).items():
        if given:
            assert first[name] == given
        else:
            assert len(base64.urlsafe_b64decode(first[name] + "=" * (-len(first[name]) % 4))) == 32
            assert first[name] != second[name]
    secrets = [first[name] for name, given in values(TEXT).items() if not given]
    assert len(set(secrets)) == len(secrets) == 7


def test_airflow_takes_the_fernet_key():
    Fernet(values(filled(TEXT))["FERNET_KEY"])


def test_the_command_writes_a_file_for_its_owner_alone_and_never_changes_one_that_is_there(tmp_path):
    (tmp_path / EXAMPLE).write_text(TEXT)
    command = [sys.executable, "-m", "kafka_lab.compose.env"]
    first = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    written = tmp_path / ".env"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    text = written.read_text()
    assert "" not in values(text).values()
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert written.read_text() == text
    assert "stays as it is" in again.stdout
    assert not any(value in first.stdout for name, value in values(text).items() if not values(TEXT)[name])
