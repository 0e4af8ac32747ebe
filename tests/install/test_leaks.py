"""The search for secrets finds one wherever and however it was written."""

from __future__ import annotations

import base64
import gzip
import html
import json
import sqlite3
import urllib.parse
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.install.leaks import found_in, spellings, texts_below

pytestmark = pytest.mark.quick

SECRET = 'p/+"2f%&=\\'
SECRETS = {"the password": SECRET}


@pytest.mark.parametrize(
    "text",
    [
        f"password={SECRET}.",
        json.dumps({"sasl.password": SECRET}),
        json.dumps({"extra": json.dumps({"sasl.password": SECRET})}),
        repr({"sasl.password": SECRET}),
        f"http://mover:{urllib.parse.quote(SECRET, safe='')}@broker",
        urllib.parse.urlencode({"password": SECRET}),
        f"<td>{html.escape(SECRET)}</td>",
        *(base64.b64encode(f"{before}{SECRET} and more".encode()).decode() for before in ("", "a", "ab", "abc")),
    ],
)
def test_each_spelling_is_found(text: str) -> None:
    assert [found for found in found_in([("a log", text.encode())], SECRETS) if found.startswith("a log: the password")]


def test_no_spelling_is_so_short_that_anything_has_it() -> None:
    assert min(map(len, spellings(SECRET).values())) >= len(SECRET)


def test_what_is_like_it_is_not_found() -> None:
    assert found_in([("a log", f"password={SECRET[:-1]}.".encode())], SECRETS) == []


def test_files_of_every_kind_are_searched(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "task.log").write_text(SECRET)
    (tmp_path / "old.log.gz").write_bytes(gzip.compress(SECRET.encode()))
    pq.write_table(pa.table({"a": [SECRET]}), tmp_path / "plan.parquet", compression="snappy")
    database = sqlite3.connect(tmp_path / "airflow.db")
    database.execute("CREATE TABLE long (value TEXT)")
    database.execute("INSERT INTO long VALUES (?)", [("x" * 4090 + SECRET) * 3])  # crosses the database's pages
    database.commit()
    database.close()
    places = {found.partition(":")[0] for found in found_in(texts_below(tmp_path), SECRETS)}
    assert places >= {"deep/task.log", "old.log.gz (unpacked)", "plan.parquet (rows)", "airflow.db, table long"}
