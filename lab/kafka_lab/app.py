"""``kafka-lab``: a real Kafka cluster on this machine, from the command line."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from kafka_lab.base import EmbeddedCluster
from kafka_lab.cluster import LocalCluster
from kafka_lab.errors import LocalClusterError
from kafka_lab.jars import CACHE_VARIABLE, IVY_SETTINGS_VARIABLE, cache_directory, fetch_jars
from kafka_lab.releases import DEFAULT_VERSION, Release
from kafka_lab.state import read_state
from kafka_lab.zookeeper import ZooKeeperCluster

app = typer.Typer(
    no_args_is_help=True,
    help=f"""A real Kafka cluster on this machine: no containers, no Kafka distribution, only Java 17 or later.

    Jars come from Maven Central once and are kept in ${CACHE_VARIABLE} (default: the user's cache directory).
    Behind a mirror, point ${IVY_SETTINGS_VARIABLE} to an ivysettings.xml. Releases before 4.0.0 run with ZooKeeper.

    'start' runs in the foreground until Ctrl-C and leaves nothing behind. 'start --detach' returns. The other
    commands act on the cluster of --dir, which runs in the background or in another terminal.""",
)

_out = Console(highlight=False)
_err = Console(stderr=True, highlight=False)

VersionOption = Annotated[str, typer.Option("--version", help="Kafka release; before 4.0.0 with ZooKeeper")]
DirectoryOption = Annotated[
    Path | None,
    typer.Option("--dir", help="directory of the cluster; by default that of start --detach", show_default=False),
]
BrokerArgument = Annotated[int, typer.Argument(help="broker id", min=0, show_default=False)]


@app.command()
def start(
    brokers: Annotated[int, typer.Option(min=1, max=100, help="brokers, with ids from 1")] = 6,
    racks: Annotated[int, typer.Option(min=1, max=26, help="racks they go round: a, b, c, ...")] = 3,
    version: VersionOption = DEFAULT_VERSION,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            help="keep data and logs here, and start again what is here; by default they go when the cluster stops",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", help="static config of all brokers, KEY=VALUE; may be repeated", show_default=False),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="return once it is up; end it with 'stop'")] = False,
) -> None:
    """Start a cluster and print its bootstrap servers."""
    # Without a handler Python would die at once: the watchdog would still clean up, but brokers could not hand over.
    signal.signal(signal.SIGTERM, _end_by_signal)
    with _print_errors():
        kind = LocalCluster if Release.parse(version).has_kraft_only else ZooKeeperCluster
        cluster = kind(
            brokers=brokers,
            racks=racks,
            version=version,
            directory=(directory or _default_directory()) if detach else directory,
            configs=dict(_key_value(pair) for pair in config or ()),
            detached=detach,
            keep_directory=directory is not None,
            log_line=_print_dim,
        )
        try:
            with _err.status(f"Starting Kafka {version}: {brokers} brokers ..."):
                cluster.start()
            _show(cluster)
            if not detach:
                _err.print("Ctrl-C stops it.", style="dim")
                _watch(cluster)
        except KeyboardInterrupt:
            _err.print("Stopping ...", style="dim")
        finally:
            if not detach:
                cluster.stop(graceful=directory is not None)


@app.command()
def fetch(version: Annotated[str, typer.Argument(help="Kafka release")] = DEFAULT_VERSION) -> None:
    """Fetch the jars of a release into the cache, or check those that are there."""
    with _print_errors():
        jars = fetch_jars(version, log_line=_print_dim)
        _out.print(f"{len(jars.jars)} jars of Kafka {jars.release} in {jars.directory}, as fetched", soft_wrap=True)


@app.command()
def status(directory: DirectoryOption = None) -> None:
    """Show the cluster's nodes; exit code 1 when some broker is not up."""
    with _print_errors():
        cluster = _attach(directory)
        _show(cluster)
        if cluster.running_brokers != frozenset(cluster.brokers):
            raise typer.Exit(1)


@app.command()
def stop(directory: DirectoryOption = None) -> None:
    """End the detached cluster; its data goes too, unless it was started with --dir."""
    with _print_errors():
        _attach(directory).stop()


@app.command()
def kill(broker: BrokerArgument, directory: DirectoryOption = None) -> None:
    """Kill a broker without warning (SIGKILL)."""
    with _print_errors():
        _attach(directory).kill(broker)


@app.command("start-broker")
def start_broker(broker: BrokerArgument, directory: DirectoryOption = None) -> None:
    """Start a broker that is down, on its own data, and wait until it is up."""
    with _print_errors():
        cluster = _attach(directory)
        cluster.start_broker(broker)
        cluster.wait_until_up()


@app.command()
def restart(broker: BrokerArgument, directory: DirectoryOption = None) -> None:
    """Stop a broker as an operator would (SIGTERM), start it, and wait until it is up."""
    with _print_errors():
        _attach(directory).restart(broker)


@app.command()
def pause(broker: BrokerArgument, directory: DirectoryOption = None) -> None:
    """Make a broker hang (SIGSTOP)."""
    with _print_errors():
        _attach(directory).pause(broker)


@app.command()
def resume(broker: BrokerArgument, directory: DirectoryOption = None) -> None:
    """Let a paused broker go on (SIGCONT)."""
    with _print_errors():
        _attach(directory).resume(broker)


@app.command("add-broker")
def add_broker(
    directory: DirectoryOption = None,
    rack: Annotated[str | None, typer.Option(help="by default the next one round", show_default=False)] = None,
) -> None:
    """Add an empty broker under the next id, and print the id when it is up."""
    with _print_errors():
        _out.print(_attach(directory).add_broker(rack=rack))


@app.command(context_settings={"ignore_unknown_options": True})
def tool(
    arguments: Annotated[list[str], typer.Argument(help="what kafka-reassign-partitions takes, after a --")],
    directory: DirectoryOption = None,
) -> None:
    """Run the release's own kafka-reassign-partitions against the cluster, as in: tool -- --list."""
    with _print_errors():
        _out.print(_attach(directory).tool(*arguments), end="", markup=False, soft_wrap=True)


def _default_directory() -> Path:
    return cache_directory() / "clusters" / "default"


def _attach(directory: Path | None) -> EmbeddedCluster:
    place = directory or _default_directory()
    state = read_state(place)
    if state is None:
        raise LocalClusterError(
            f"There is no local cluster in {place}, expected one. Start it with 'start --detach', or give its --dir."
        )
    kind = LocalCluster if state.mode == LocalCluster.mode else ZooKeeperCluster
    return kind.attach(place)


def _show(cluster: EmbeddedCluster) -> None:
    table = Table("broker", "rack", "address", "state", box=None, pad_edge=False)
    for broker in cluster.brokers:
        state = "up" if broker in cluster.running_brokers else ("paused" if cluster.pid(broker) else "down")
        table.add_row(str(broker), cluster.rack(broker), cluster.address(broker), state)
    _err.print(f"Kafka {cluster.version} in {cluster.directory}; logs are in broker-*/server.log", soft_wrap=True)
    _err.print(table, soft_wrap=True)
    if isinstance(cluster, ZooKeeperCluster):
        _err.print(f"zookeeper.connect={cluster.zookeeper_connect}", soft_wrap=True)
    _out.print(f"bootstrap.servers={cluster.bootstrap_servers}", soft_wrap=True)


def _watch(cluster: EmbeddedCluster) -> None:
    """Stay until Ctrl-C, reporting brokers that end by themselves."""
    known = cluster.running_brokers
    while True:
        time.sleep(1)
        for broker in sorted(known - cluster.running_brokers):
            _err.print(f"Broker {broker} is not running any more; see {cluster.log_path(broker)}", soft_wrap=True)
        known = cluster.running_brokers


def _key_value(pair: str) -> tuple[str, str]:
    key, equals, value = pair.partition("=")
    if not (key and equals):
        raise LocalClusterError(f"--config {pair!r} is not a config, expected KEY=VALUE. Write for instance a.b=1.")
    return key, value


def _end_by_signal(*_: object) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)


def _print_dim(line: str) -> None:
    _err.print(line, style="dim", markup=False, soft_wrap=True)


@contextmanager
def _print_errors() -> Iterator[None]:
    try:
        yield
    except LocalClusterError as error:
        _err.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
