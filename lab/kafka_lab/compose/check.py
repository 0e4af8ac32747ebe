"""``make compose-check``: everything of docker-compose.yml is brought up, used and taken down. Needs Docker and Python, nothing else.

It has a project name, volumes, ports and secrets of its own, so that it does not touch what a user has running.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kafka_lab.compose.env import EXAMPLE, filled, write_env

PROJECT = "kafka-reassignment-check"
CLUSTERS = {"demo": "kafka_default", "secured": "kafka_secured", "zookeeper": "kafka_zookeeper"}
"""By profile: the connection of the cluster that a broker is moved away from."""
AFTERWARDS = {"secured": ["kafka-secured-users"]}
"""By profile: what runs once when its services are healthy, and has no service that waits for it."""


class FailedError(Exception):
    """A stage failed; the text says which command."""


class Compose:
    """``docker compose`` on one project.

    Args:
        environment_file: what ``.env`` is for others.
        profiles: those that are on.
    """

    def __init__(self, environment_file: Path, profiles: Sequence[str]) -> None:
        named = [part for profile in profiles for part in ("--profile", profile)]
        self._command = ["docker", "compose", "-p", PROJECT, "--env-file", str(environment_file), *named]

    def command(self, *arguments: str) -> str:
        """Return a command as it is typed."""
        return shlex.join([*self._command, *arguments])

    def run(self, *arguments: str) -> None:
        """Run a command of compose; its output is shown.

        Raises:
            FailedError: it did not end with 0.
        """
        ended = subprocess.run([*self._command, *arguments], check=False)
        if ended.returncode:
            raise FailedError(f"'docker compose {' '.join(arguments)}' ended with {ended.returncode}")

    def services_with_health(self) -> list[str]:
        """Return the services that say whether they are healthy, in the file's order; the others end by themselves.

        Raises:
            FailedError: compose refuses the file.
        """
        shown = subprocess.run([*self._command, "config", "--format", "json"], check=False, stdout=subprocess.PIPE)
        if shown.returncode:
            raise FailedError(f"'docker compose config' ended with {shown.returncode}")
        services: dict[str, dict[str, object]] = json.loads(shown.stdout)["services"]
        return [name for name, service in services.items() if "healthcheck" in service]

    def show_what_failed(self) -> None:
        """Print the containers and the end of what they logged."""
        for arguments in (["ps", "--all"], ["logs", "--no-color", "--tail", "25"]):
            subprocess.run([*self._command, *arguments], check=False)


def check(compose: Compose, profiles: Sequence[str], stage: Callable[[str], None]) -> None:
    """Bring it up, move a broker's replicas on the cluster of each profile, and verify the end.

    Raises:
        FailedError: a stage failed.
    """
    lasting = compose.services_with_health()
    compose.run("build", "--quiet", "store-init")
    stage("the image is built")
    compose.run("up", "--detach", "--no-build", "--wait", *lasting)
    stage("every service is healthy")
    for profile in profiles:
        for service in AFTERWARDS.get(profile, ()):
            compose.run("run", "--rm", "--no-deps", service)
        compose.run("run", "--rm", "--no-deps", "demo", "kafka_lab.compose.demo", CLUSTERS[profile])
        stage(f"profile {profile}: a broker is empty, and it is verified")


def main() -> int:
    """Return 0 when every stage is done."""
    parser = argparse.ArgumentParser(prog="make compose-check", description=__doc__)
    parser.add_argument("--profile", action="append", choices=CLUSTERS, help="may be repeated (default: demo)")
    parser.add_argument("--keep", action="store_true", help="leave it up; the end says how to take it down")
    options = parser.parse_args()
    profiles = options.profile or ["demo"]
    began = last = time.monotonic()

    def stage(done: str) -> None:
        nonlocal last
        now = time.monotonic()
        print(f"[{now - began:5.0f} s] {done} ({now - last:.0f} s)", flush=True)
        last = now

    folder = Path(tempfile.mkdtemp(prefix="compose-check-"))
    write_env(folder / "env", filled(Path(EXAMPLE).read_text()))
    # Those of the environment come before those of the file.
    os.environ.update(AIRFLOW_PORT=str(_free_port()), SPARK_PORT=str(_free_port()))
    compose = Compose(folder / "env", profiles)
    try:
        check(compose, profiles, stage)
        result = "Everything is as it should be"
        return 0
    except FailedError as failed:
        compose.show_what_failed()
        result = f"FAILED: {failed}"
        return 1
    finally:
        if options.keep:
            print(
                f"It stays up: Airflow is at http://localhost:{os.environ['AIRFLOW_PORT']}, its password in {folder}/env. "
                f"Take it down: {compose.command('down', '--volumes')}"
            )
        else:
            compose.run("down", "--volumes", "--timeout", "20")
            (folder / "env").unlink()
            folder.rmdir()
            stage("everything is taken down")
        print(result)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
