"""Follow the pages: every command is typed, every file is saved, and what is shown below a command must be printed."""

from __future__ import annotations

import time
from pathlib import Path

from tests.install.pages import Block, followed
from tests.install.shell import Shell, commands, prints
from tests.install.world import World

ANSWERS = {
    "kafka-reassignment lock release CLUSTER_ID RUN_ID": ("y\n", 1),
    "kafka-reassignment lock release CLUSTER_ID --force": ("0\nCLUSTER_ID\n", 1),
}
"""What a command asks, as it is answered, and the exit status then. All others ask nothing and succeed."""

PATIENCE_SECONDS = 600


class Walk:
    """One reader of the pages.

    Args:
        world: what the reader has.
        shell: where the reader types.
    """

    def __init__(self, world: World, shell: Shell) -> None:
        self._world = world
        self._shell = shell
        self._replaced: set[str] = set()

    def follow(self) -> None:
        """Do what the pages say.

        Raises:
            AssertionError: a command failed or did not print what is shown, a block is of no kind that is followed, or
                what is to be replaced is on no page.
        """
        blocks = followed()
        heading = ""
        printed = ""
        for number, block in enumerate(blocks):
            if block.heading != heading:
                heading = block.heading
                self._shell.say(f"\n===== {block.page}.md, {heading}")
            after = blocks[number + 1] if number + 1 < len(blocks) and blocks[number + 1].is_seen else None
            if block.keeps_running:
                self._wait_for_lines(self._shell.keep_running(self._filled(block.text)), after)
            elif block.is_commands:
                printed = self._type(block, after)
                assert after is None or prints(printed, self._filled(after.text)), f"expected of {block}: {after}"
            elif block.file:
                (self._world.directory / block.file).write_text(self._filled(block.text) + "\n")
                self._shell.say(f"(saved as {block.file})")
            else:
                assert block.is_seen or block.is_policy, f"nobody follows {block}"
        assert self._replaced == set(self._world.words), set(self._world.words) - self._replaced

    def _type(self, block: Block, after: Block | None) -> str:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            printed = "".join(self._type_one(command) for command in commands(block.text))
            again = after is not None and after.is_repeated and not prints(printed, self._filled(after.text))
            if not again or time.monotonic() > deadline:
                return printed
            time.sleep(5)

    def _type_one(self, command: str) -> str:
        asked = next((answer for start, answer in ANSWERS.items() if command.startswith(start)), ("", 0))
        return self._shell.run(self._filled(command), stdin=self._filled(asked[0]), expected_status=asked[1])

    def _wait_for_lines(self, output: Path, after: Block | None) -> None:
        assert after is not None, "a command that keeps running needs something to see"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not prints(output.read_text(errors="replace"), self._filled(after.text)):
            assert time.monotonic() < deadline, output.read_text(errors="replace")[-3000:]
            assert self._shell.processes(), f"it ended: {output.read_text(errors='replace')[-3000:]}"
            time.sleep(1)
        self._shell.say(output.read_text(errors="replace").rstrip())

    def _filled(self, text: str) -> str:
        for word, own in self._world.words.items():
            if word in text:
                self._replaced.add(word)
                text = text.replace(word, own)
        return text
