"""How a secret looks where a program has written it, and which texts have it."""

from __future__ import annotations

import base64
import gzip
import html
import io
import json
import re
import sqlite3
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import httpx
import pyarrow.parquet as pq


def spellings(secret: str) -> dict[str, bytes]:
    """Return how a secret may have been written, by the name of the spelling."""
    quoted = json.dumps(secret)[1:-1]
    found = {
        "as it is": secret,
        "in JSON": quoted,
        "in JSON in JSON": json.dumps(quoted)[1:-1],
        "as Python shows it": repr(secret)[1:-1],
        "in a URL": urllib.parse.quote(secret, safe=""),
        "in a form": urllib.parse.quote_plus(secret),
        "in HTML": html.escape(secret),
    }
    spelled = {name: text.encode() for name, text in found.items()}
    for shift in range(3):
        spelled[f"in base64, {shift} bytes into a group"] = _in_base64(secret.encode(), shift)
    return spelled


def _in_base64(secret: bytes, shift: int) -> bytes:
    """Those characters that are the same whatever stands before and after it."""
    whole = base64.b64encode(bytes(shift) + secret)
    return whole[-(-8 * shift // 6) : 8 * (shift + len(secret)) // 6]


def found_in(texts: Iterable[tuple[str, bytes]], secrets: Mapping[str, str]) -> list[str]:
    """Return which texts, given with the place of each, have which of the secrets, given by name."""
    sought = [(whose, how, spelled) for whose, secret in secrets.items() for how, spelled in spellings(secret).items()]
    return sorted(
        {f"{place}: {whose}, {how}" for place, text in texts for whose, how, spelled in sought if spelled in text}
    )


def texts_of(place: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a file's bytes, and what is inside if it is Parquet or compressed."""
    yield place, content
    if content.startswith(b"PAR1"):
        yield f"{place} (rows)", repr(pq.read_table(io.BytesIO(content)).to_pylist()).encode()
    if content.startswith(b"\x1f\x8b"):
        yield f"{place} (unpacked)", gzip.decompress(content)


def texts_below(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield what all files below a folder have; of an SQLite database each row as well."""
    for file in sorted(folder.rglob("*")):
        if not file.is_file():
            continue
        place = str(file.relative_to(folder))
        content = file.read_bytes()
        yield from texts_of(place, content)
        if content.startswith(b"SQLite format 3\0"):
            yield from _rows(place, file)


def _rows(place: str, file: Path) -> Iterator[tuple[str, bytes]]:
    """A long value is spread over pages of the file: no search of its bytes would find it."""
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as database:
        database.text_factory = bytes
        tables = [name.decode() for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in database.execute(f'SELECT * FROM "{table}"'):
                yield (
                    f"{place}, table {table}",
                    b"\0".join(v if isinstance(v, bytes) else str(v).encode() for v in row),
                )
    database.close()


def pages_from(get: Callable[[str], httpx.Response], start: str) -> Iterator[tuple[str, bytes]]:
    """Yield every page below the folder of a page that links lead to from there, and what the server answered."""
    folder = start.rpartition("/")[0] + "/"
    waiting, seen = [start], {start}
    while waiting:
        path = waiting.pop()
        answer = get(path)
        assert answer.is_success, f"GET {path}: {answer.status_code} {answer.text[:300]}"
        yield f"page {path}", answer.content + str(answer.headers).encode()
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        for link in re.findall(r'href="([^"]+)"', answer.text):
            to = urllib.parse.urljoin(path, html.unescape(link)).partition("#")[0]
            if to.startswith(folder) and to not in seen:
                seen.add(to)
                waiting.append(to)
