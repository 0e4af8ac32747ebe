"""What `make follow-install` follows is all that the pages show, and it notices what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.install.pages import ORDER, PAGES, blocks_of, followed
from tests.install.shell import Shell, commands, prints

pytestmark = pytest.mark.quick


def test_every_block_of_the_pages_is_followed() -> None:
    shown = [block for page in PAGES for block in blocks_of(page)]
    assert [block for block in shown if block not in followed()] == []
    assert {heading for _, heading in ORDER} <= {block.heading for block in shown} | {
        "4. Connect the record",
        "5. Connect the cluster",
    }


def test_every_block_is_typed_saved_granted_or_seen() -> None:
    blocks = followed()
    assert [b for b in blocks if not (b.is_commands or b.file or b.is_policy or b.is_seen)] == []
    before = dict(zip(blocks[1:], blocks, strict=False))
    assert [b for b in blocks if b.is_seen and not before[b].is_commands] == []


def test_every_command_of_the_pages_is_found() -> None:
    typed = [command for block in followed() if block.is_commands for command in commands(block.text)]
    for needed in ("airflow standalone", "airflow db migrate", "airflow connections import kafka-connection.json"):
        assert needed in typed
    assert len([command for command in typed if command.startswith("kafka-acls.sh")]) == 2
    assert [command for command in typed if "\n" in command] == []


def test_what_is_expected_must_be_printed_in_order() -> None:
    output = "first 12 of all\nsecond\n"
    assert prints(output, "first … of all\nsecond")
    assert prints(output, "second")
    assert not prints(output, "second\nfirst")
    assert not prints(output, "third")
    assert not prints(output, "first 12 of … second")


def test_a_command_that_fails_ends_the_walk(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    shell = Shell(tmp_path / "work", tmp_path / "kept.txt", {})
    shell.run("export WORD='two\nlines'")
    assert shell.run('echo "$WORD"') == "two\nlines\n"
    with pytest.raises(AssertionError, match="exit status 3 of: exit 3"):
        shell.run("exit 3")
    assert "$ exit 3" in (tmp_path / "kept.txt").read_text()


def test_a_command_over_several_lines_is_one() -> None:
    assert commands("one \\\n  two\nthree '\n4'\n# five") == ["one \\\n  two", "three '\n4'", "# five"]
