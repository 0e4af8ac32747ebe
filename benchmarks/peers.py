"""Other planners on the same clusters: Kafka's own is run, the others' figures were measured once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from measuring import Measured, measured
from pyarrow import csv

from kafka_lab.jars import fetch_jars

KAFKA = "kafka-reassign-partitions --generate"

QUOTED_ON = "November 2026, 2 cores, seed 7"

QUOTED = (
    # job, planner, size, wall seconds, peak, moved ÷ bound, brokers outside, leaders
    ("rebalance", "Cruise Control, 5 goals", "large", "21-23", "4.0", "1.076", "0/200", "1.09"),
    ("rebalance", "Cruise Control, 5 goals", "xl", "> 180, stopped", "7.5", "", "", ""),
    ("rebalance", "a plain greedy in numpy, bytes only", "xl", "5.4", "0.96", "1.002", "0/1000", "4.2"),
    ("decommission", "Cruise Control remove_broker", "large", "61-72", "4.0", "1.000", "119/195", "3.42"),
    ("decommission", "topicmappr rebuild", "xl", "24", "1.35", "1.000", "663/980", "4.4"),
    ("add", "Cruise Control add_broker", "large", "64-67", "4.0", "0.915 (not balanced)", "121/220", "2.25"),
    ("rf_up", "Cruise Control", "large", "73", "3.9", "1.000", "102/200", "1.09"),
)


def run_kafka(snapshot: Path, job: str, out: Path) -> Measured:
    """Run Kafka's planner from its jars for a job that it can do: rebalance, decommission or add.

    Its time includes starting Java and reading the cluster from a text file.
    """
    cluster = _as_text(snapshot, job)
    java = shutil.which("java") or "java"
    classpath = fetch_jars().classpath
    program = Path(__file__).with_name("KafkaPlanner.java")
    return measured([java, "-cp", classpath, str(program), str(cluster), str(out)])


def _as_text(snapshot: Path, job: str) -> Path:
    job_fields = json.loads((snapshot / "jobs.json").read_text())[job]
    brokers = json.loads((snapshot / "brokers.json").read_text()) + job_fields.get("new_brokers", [])
    stay = [b for b in brokers if b["id"] not in job_fields.get("remove", [])]
    rows = pq.read_table(snapshot / "partitions.parquet", columns=["topic", "partition", "replicas"])
    lists = rows["replicas"].combine_chunks()
    texts = pa.ListArray.from_arrays(lists.offsets, lists.values.cast(pa.string()))
    table = pa.table([rows["topic"], rows["partition"], pc.binary_join(texts, ",")], names=["t", "p", "r"])
    path = snapshot / f"{job}.tsv"
    with path.open("wb") as sink:
        sink.writelines(f"#\t{b['id']}\t{b['rack']}\n".encode() for b in stay)
        csv.write_csv(table, sink, csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none"))
    return path
