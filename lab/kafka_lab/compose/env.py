"""``make env``: a ``.env`` for docker-compose.yml with random secrets. Needs nothing but Python."""

from __future__ import annotations

import base64
import re
import secrets
import sys
from pathlib import Path

EXAMPLE = ".env.example"
_EMPTY = re.compile(r"^([A-Z][A-Z0-9_]*)=$", re.MULTILINE)


def filled(example: str) -> str:
    """Return the text of ``.env.example`` with each empty value filled in at random, 32 bytes each.

    All are URL-safe base64, which is what Fernet takes as a key; only Fernet wants the padding.
    """
    return _EMPTY.sub(lambda found: f"{found[1]}={_random(padded=found[1] == 'FERNET_KEY')}", example)


def write_env(target: Path, text: str) -> None:
    """Create a file that its owner alone may read.

    Raises:
        FileExistsError: it is there already: databases keep what was encrypted with its secrets.
    """
    target.touch(mode=0o600, exist_ok=False)
    target.write_text(text)


def _random(*, padded: bool) -> str:
    text = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    return text if padded else text.rstrip("=")


def main() -> int:
    """Write ``.env`` beside ``.env.example`` in the working directory; leave one that is there alone."""
    target = Path(".env")
    try:
        write_env(target, filled(Path(EXAMPLE).read_text()))
    except FileExistsError:
        print(f"{target} is there already and stays as it is. Remove it for new secrets, and the volumes with it.")
        return 0
    print(f"{target} is written, with random secrets. The password of the user admin is its AIRFLOW_ADMIN_PASSWORD.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
