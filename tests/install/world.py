"""What a newcomer already has: a secured cluster, a bucket with a user of it, Kafka's own tools, and somebody's right to grant rights."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import boto3
from tests.install.pages import blocks_of
from tests.record_stores import servers
from tests.secured import SecuredCluster
from tests.unit.cluster.certificates import Certificates

from kafka_lab import data
from kafka_lab.airflow import PROJECT

EMPTIED = 4
"""The broker that the page empties."""

BUCKET, FOLDER = "kafka-records", "reassignments"
TOPICS = {
    "orders": [(1, 4), (4, 2), (2, 3), (3, 1)],
    "payments": [(4, 3, 2), (1, 2, 3)],
}
"""Replicas at the start, by topic."""

_TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-log-dirs.sh": "org.apache.kafka.tools.LogDirsCommand",
}


def password() -> str:
    """Return a password that most encodings have to escape."""
    return f'p/+"{secrets.token_hex(12)}%&=\\'


@dataclass(frozen=True)
class World:
    """``words`` has what stands in the pages for something of this world, and what that is."""

    directory: Path
    cluster: SecuredCluster
    s3: Any
    environment: dict[str, str]
    words: dict[str, str]

    def objects(self) -> dict[str, bytes]:
        """All objects of the bucket, by name."""
        listed = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        names = [found["Key"] for page in listed for found in page.get("Contents", ())]
        return {name: self.s3.get_object(Bucket=BUCKET, Key=name)["Body"].read() for name in names}


@contextmanager
def world(directory: Path) -> Iterator[World]:
    """Start everything, and end it."""
    for folder in ("pki", "tools", "tmp", "work"):
        (directory / folder).mkdir()
    pki = Certificates.make(directory / "pki")
    mover, admin = password(), password()
    with SecuredCluster(pki, brokers=4, users={}, super_users=("admin",)) as cluster, servers.s3() as store:
        cluster.let_in({"mover": mover, "admin": admin})
        for topic, replicas in TOPICS.items():
            data.create_topic(cluster.bootstrap_servers, topic, replicas)
        data.fill_topics(cluster.bootstrap_servers, list(TOPICS), 60_000_000)
        _write_tools(directory / "tools", cluster)
        _write_login(directory / "work" / "admin.properties", pki, admin)
        url = f"http://127.0.0.1:{store.door.port}"
        key = _user_of_the_bucket(url)
        servers_of_sasl = cluster.servers(cluster.secure_ports).split(",")
        yield World(
            directory / "work",
            cluster,
            _client("s3", url, key["AccessKeyId"], key["SecretAccessKey"]),
            {"AWS_ENDPOINT_URL": url, "PATH": f"{directory / 'tools'}:{_path()}", "TMPDIR": str(directory / "tmp")},
            {
                "/path/to/kafka-reassignment": str(PROJECT),
                "my-bucket/my-folder": f"{BUCKET}/{FOLDER}",
                "broker-1:9092,broker-2:9092": ",".join(servers_of_sasl[:2]),
                "broker-1:9092": servers_of_sasl[0],
                "MOVER_PASSWORD": json.dumps(mover)[1:-1],
                "/etc/kafka/ca.pem": str(pki.ca),
                "ACCESS_KEY": key["AccessKeyId"],
                "SECRET_KEY": key["SecretAccessKey"],
                "CLUSTER_ID": cluster.cluster_id,
                "RUN_ID": "first-decommission",
            },
        )


def _path() -> str:
    """Where commands are found, but those of this process's own environment."""
    own = str(Path(sys.executable).parent)
    return ":".join(place for place in os.environ["PATH"].split(":") if place != own)


def _write_tools(folder: Path, cluster: SecuredCluster) -> None:
    programs = cluster._programs
    for name, main in _TOOLS.items():
        tool = folder / name
        tool.write_text(f'#!/bin/sh\nexec {programs.java.path} -Xmx256m -cp "{programs.jars.classpath}" {main} "$@"\n')
        tool.chmod(0o755)


def _write_login(file: Path, pki: Certificates, password: str) -> None:
    """Write the login of somebody who may grant rights, as Kafka's tools read it."""
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="{quoted}";'
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": login.replace("\\", "\\\\"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(pki.ca),
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


def _client(service: str, url: str, key: str, secret: str) -> Any:
    return boto3.client(
        service, endpoint_url=url, region_name="eu-central-1", aws_access_key_id=key, aws_secret_access_key=secret
    )


def _user_of_the_bucket(url: str) -> dict[str, str]:
    """Make the bucket, and a user with the rights of docs/record.md; from then on nobody has other rights."""
    _client("s3", url, "a", "b").create_bucket(
        Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    iam = _client("iam", url, "a", "b")
    iam.create_user(UserName="airflow")
    [policy] = [block.text for block in blocks_of("record") if block.is_policy]
    document = policy.replace("my-bucket", BUCKET).replace("my-folder", FOLDER)
    iam.put_user_policy(UserName="airflow", PolicyName="records", PolicyDocument=document)
    key: dict[str, str] = iam.create_access_key(UserName="airflow")["AccessKey"]
    enforce = Request(f"{url}/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"})
    urlopen(enforce, timeout=10).close()
    return key
