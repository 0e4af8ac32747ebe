"""The Spark session the planner runs in: this machine's cores by default, any master by its URL."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import kafka_reassignment
from kafka_reassignment.planner.environment import why_no_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARROW_BATCH_ROWS = 65_536
"""Rows per Arrow batch: large enough for numpy to be fast, small enough that a batch is under 10 MB."""


_QUIET = "-Xlog:disable"
"""Without it Java prints each class that it cannot archive, and each archive that does not fit."""

_LOG_CONFIGURATION = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
"""Log4j's, for the driver: errors only. With ``spark.log.level`` instead, or without a level for PySpark's main class,
Spark writes to stderr that it sets a level; in Airflow such lines stand as errors above real ones."""

_JVM_END_SECONDS = 120
"""Archiving the classes at the end takes half a minute."""


def class_archive() -> Path:
    """Where sessions look for an archive of Spark's classes; see ``warm_start``.

    It fits one Java and one set of jars, so it is in the Python environment in which PySpark is installed.
    """
    version = importlib.metadata.version("pyspark")
    return Path(sys.prefix) / "share" / "kafka-reassignment" / f"spark-{version}.jsa"


@contextmanager
def planner_session(
    master: str = "local[*]",
    *,
    memory: str = "1536m",
    settings: Mapping[str, str] | None = None,
    archive_classes_to: Path | None = None,
) -> Iterator[SparkSession]:
    """Start a Spark session for planning and stop it, and its JVM, afterwards.

    Nothing is left in the working directory. On a cluster the executors get this package by zip
    file; they need Python of the same minor version, with numpy, pyarrow, pydantic, pendulum and croniter.

    Args:
        master: ``local[*]`` uses every core of this machine.
        memory: heap of the driver's JVM, in which all of Spark runs in local mode.
        settings: further Spark settings; they override those made here.
        archive_classes_to: write an archive of the classes to this file at the end, instead of using one.

    Raises:
        PlannerMissingError: Java is missing or too old.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - slow to import
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    scratch = Path(tempfile.mkdtemp(prefix="planner-"))
    log_configuration = scratch / "log4j2.properties"
    log_configuration.write_text(_LOG_CONFIGURATION)
    is_local = master.startswith("local")
    chosen = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_ROWS),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "spark"),
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_configuration.as_uri()}",
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        # A task's Python worker stays for the next stage: importing numpy and pyarrow again costs 0.5 s each.
        "spark.python.worker.reuse": "true",
    }
    if is_local:
        chosen |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "8",
            # The planner's frames are tens of megabytes: smaller splits keep all cores busy.
            "spark.sql.files.maxPartitionBytes": "8m",
            "spark.sql.files.openCostInBytes": "1m",
            "spark.driver.extraJavaOptions": (
                f"{chosen['spark.driver.extraJavaOptions']} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dderby.system.home={scratch / 'derby'} "
                + _class_sharing(archive_classes_to)
            ),
        }
    chosen |= settings or {}
    before = os.environ.get("PYSPARK_PYTHON")
    # The executors' Python is taken from here alone: PySpark does not read the setting.
    os.environ["PYSPARK_PYTHON"] = chosen["spark.pyspark.python"]
    session = None
    try:
        builder = SparkSession.builder.master(master).appName("kafka-reassignment planner")
        for key, value in chosen.items():
            builder = builder.config(key, value)
        try:
            session = builder.getOrCreate()
        except (PySparkRuntimeError, OSError) as error:
            raise why_no_java() or error from error
        if not is_local:
            session.sparkContext.addPyFile(str(_package_zip(scratch)))
        yield session
    finally:
        if session is not None:
            session.stop()
            _end_jvm(SparkContext)
        if before is None:
            os.environ.pop("PYSPARK_PYTHON", None)
        else:
            os.environ["PYSPARK_PYTHON"] = before
        shutil.rmtree(scratch, ignore_errors=True)


def _class_sharing(archive_to: Path | None) -> str:
    if archive_to is not None:
        return f'{_QUIET} "-XX:ArchiveClassesAtExit={archive_to}"'
    archive = class_archive()
    # Java ignores an archive that does not fit, for example of another Java.
    return f'{_QUIET} -Xshare:auto "-XX:SharedArchiveFile={archive}"' if archive.exists() else "-Xshare:auto"


def _package_zip(scratch: Path) -> Path:
    root = Path(kafka_reassignment.__path__[0])
    packed = scratch / "kafka_reassignment.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(root.rglob("*.py")):
            archive.write(module, Path(root.name) / module.relative_to(root))
    return packed


def _end_jvm(context_class: type) -> None:
    """End the JVM that ``SparkSession.stop`` leaves running, so that a long-lived worker does not keep its memory.

    PySpark starts one JVM per Python process and ends it at exit only (PySpark 4.3); the next
    session starts a new one when the gateway is gone.
    """
    gateway = context_class._gateway  # type: ignore[attr-defined]
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    gateway.shutdown()
    if process is not None:
        process.stdin.close()  # the JVM ends when its stdin does
        process.wait(timeout=_JVM_END_SECONDS)
    context_class._gateway = None  # type: ignore[attr-defined]
    context_class._jvm = None  # type: ignore[attr-defined]
