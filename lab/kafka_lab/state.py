"""What a local cluster writes down about itself, so that another process can steer it and a later one restart it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kafka_lab.errors import LocalClusterError
from kafka_lab.nodes import Node, Role
from kafka_lab.processes import Identity, is_alive
from kafka_reassignment.errors import name_some

STATE_FILE = "cluster.json"


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What a cluster was asked to be; ``static_configs`` is by broker and wins over ``configs``."""

    version: str
    racks: int
    log_dirs: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)
    static_configs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_up_to(26, self.racks, "racks")
        require_up_to(20, self.log_dirs, "log dirs of each broker")


def require_up_to(most: int, found: int, what: str) -> None:
    """Raise ``LocalClusterError`` when a number asked for is out of range."""
    if not 1 <= found <= most:
        raise LocalClusterError(f"A local cluster has 1 to {most} {what}, found {found}. Choose a number in between.")


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster on disk: its mode (``kraft`` or ``zookeeper``), nodes, and their processes by node name."""

    mode: str
    options: ClusterOptions
    detached: bool
    keeps_directory: bool
    nodes: tuple[Node, ...]
    processes: Mapping[str, Identity]


def write_state(directory: Path, state: ClusterState) -> None:
    """Write atomically: a reader sees the old state or the new one."""
    partial = directory / f"{STATE_FILE}.partial"
    partial.write_text(json.dumps(asdict(state), indent=1) + "\n", encoding="utf-8")
    partial.replace(directory / STATE_FILE)


def read_state(directory: Path) -> ClusterState | None:
    """Read what ``write_state`` wrote; None when there is no cluster in this directory.

    Raises:
        LocalClusterError: there is a file, but not one of ours.
    """
    file = directory / STATE_FILE
    try:
        fields: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        options = fields.pop("options")
        options["static_configs"] = {int(broker): of for broker, of in options["static_configs"].items()}
        nodes = tuple(Node(**{**node, "role": Role(node["role"])}) for node in fields.pop("nodes"))
        processes = {name: Identity(int(of["pid"]), float(of["birth"])) for name, of in fields.pop("processes").items()}
        return ClusterState(options=ClusterOptions(**options), nodes=nodes, processes=processes, **fields)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as broken:
        raise LocalClusterError(
            f"{file} does not describe a local cluster: expected what 'kafka-lab start' writes, found {broken!r}. "
            "Name another directory, or remove this one."
        ) from None


def claim_directory(given: Path | None, keep: bool, mode: str, version: str) -> tuple[Path, ClusterState | None]:
    """Return the directory to start a cluster in (a new temporary one when none is given), and the one found there.

    Args:
        given: where the caller wants it.
        keep: whether the directory stays when the cluster stops. If not, the remains of a cluster that
            ended badly are removed, and nothing else may be in the way.
        mode: kind of the cluster to start.
        version: its release.

    Raises:
        LocalClusterError: a cluster runs there, or one of another kind or release, or files of others are there.
    """
    if given is None:
        return Path(tempfile.mkdtemp(prefix="kafka-reassignment-")), None
    given.mkdir(parents=True, exist_ok=True)
    found = read_state(given)
    if found is None:
        if not keep and any(given.iterdir()):
            raise LocalClusterError(
                f"{given} would be removed at the end: expected an empty directory, found other files in it. "
                "Name another one, or keep it."
            )
        return given, None
    if running := sorted(name for name, identity in found.processes.items() if is_alive(identity)):
        raise LocalClusterError(
            f"The local cluster in {given} is already running ({name_some(running)}), expected none there. "
            "Stop it first, or name another directory."
        )
    if not keep:
        shutil.rmtree(given)
        given.mkdir()
        return given, None
    if (found.mode, found.options.version) != (mode, version):
        raise LocalClusterError(
            f"The data in {given} is of a {found.mode} cluster of Kafka {found.options.version}, expected one of "
            f"{mode} and {version}. Name another directory, or start that release."
        )
    return given, found
