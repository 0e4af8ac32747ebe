"""The blocks of the pages about installing, and the order in which a newcomer meets them."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from kafka_lab.airflow import PROJECT

ORDER = (
    ("install", "1. Install the package"),
    ("install", "2. Write the settings"),
    ("install", "3. Make Airflow's database"),
    ("install", "4. Connect the record"),
    ("record", "In an object store"),
    ("install", "5. Connect the cluster"),
    ("connect", "Which rights the principal needs"),
    ("connect", "The connection"),
    ("install", "6. Start Airflow"),
    ("install", "7. See what would be done"),
    ("install", "8. Do it"),
    ("install", "9. Check it"),
    ("record", "The audit trail"),
    ("record", "The cluster lock"),
)
"""Page and heading: where each section begins in the order in which the pages send their reader there."""

PAGES = ("install", "connect", "record")

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SAVED = re.compile(r"Save this as `([^`]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    ``before`` is the paragraph above it: it says what the block is.
    """

    page: str
    heading: str
    language: str
    text: str
    before: str

    @property
    def is_commands(self) -> bool:
        """Whether it is to be typed."""
        return self.language == "sh"

    @property
    def file(self) -> str | None:
        """The name that it is to be saved as; None where it is no file."""
        found = _SAVED.search(self.before)
        return found[1] if found and not self.is_commands else None

    @property
    def is_seen(self) -> bool:
        """Whether it is what the commands above it print."""
        return self.language == "text" and bool(re.search(r"[Yy]ou (should )?see:$", self.before))

    @property
    def is_repeated(self) -> bool:
        """Whether the commands above it are to be repeated until they print it."""
        return self.is_seen and "Repeat it until" in self.before

    @property
    def keeps_running(self) -> bool:
        """Whether it is a command that stays in its terminal."""
        return self.is_commands and "keeps running" in self.before

    @property
    def is_policy(self) -> bool:
        """Whether it is the policy of the bucket's user."""
        return self.language == "json" and '"Statement"' in self.text


def blocks_of(page: str) -> list[Block]:
    """Return all fenced blocks of a page below docs/, in order."""
    text = (PROJECT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        above = text[: fence.start()]
        headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", above), re.MULTILINE)
        paragraph = above.rstrip().rpartition("\n\n")[2]
        body = textwrap.dedent(fence["body"]).rstrip("\n")
        found.append(Block(page, headings[-1], fence["language"], body, " ".join(paragraph.split())))
    return found


def followed() -> list[Block]:
    """Return the blocks of all pages in the order in which they are followed."""
    everything = {page: blocks_of(page) for page in PAGES}
    return [block for page, heading in ORDER for block in everything[page] if block.heading == heading]
