"""The rights on the bucket that docs/record.md lists are enough, and each of them is needed."""

import json
import re
from urllib.request import Request, urlopen

import boto3
import pytest
from tests.fakes.cluster import FakeCluster
from tests.record_stores import servers
from tests.record_stores.conftest import reachable
from tests.steps_lab import Run, move

from kafka_lab.airflow import PROJECT
from kafka_reassignment.errors import RecordUnavailableError
from kafka_reassignment.places import place

RIGHTS = ("s3:GetObject", "s3:PutObject", "s3:ListBucket")
USER = "airflow"


def policy(actions, folder):
    """The policy of docs/record.md, with these actions only."""
    text = (PROJECT / "docs" / "record.md").read_text()
    [written] = re.findall(r"```json\n(\{\s*\"Version\".*?)```", text, re.DOTALL)
    written = json.loads(written.replace("my-bucket", servers.BUCKET).replace("my-folder", folder))
    for statement in written["Statement"]:
        statement["Action"] = [a for a in statement["Action"] if a in actions]
    written["Statement"] = [s for s in written["Statement"] if s["Action"]]
    return json.dumps(written)


@pytest.fixture
def with_rights(monkeypatch):
    """Run moto with IAM in force; ``with_rights(actions)`` returns the base URI for a user who has only these."""
    with servers.s3() as server, reachable(server):
        [(name, fields)] = server.environment.items()
        connection = json.loads(fields)
        url = connection["extra"]["endpoint_url"]
        iam = boto3.client(
            "iam", endpoint_url=url, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
        )
        iam.create_user(UserName=USER)
        key = iam.create_access_key(UserName=USER)["AccessKey"]

        def uri_for(actions):
            iam.put_user_policy(UserName=USER, PolicyName="records", PolicyDocument=policy(actions, "reassignments"))
            urlopen(
                Request(f"{url}/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"}), timeout=10
            ).close()
            mine = connection | {"login": key["AccessKeyId"], "password": key["SecretAccessKey"]}
            monkeypatch.setenv(f"{name}_OF_USER", json.dumps(mine))
            conn_id = name.removeprefix("AIRFLOW_CONN_").lower()
            return server.uri.replace(f"{conn_id}@", f"{conn_id}_of_user@")

        yield uri_for


def reassign(uri):
    cluster = FakeCluster(auto_catch_up=False)
    cluster.create_topic("orders", [(1, 2)], size_bytes=1_000_000)
    cluster.catch_up_all()
    run = Run(cluster, place(uri), [[move("orders", 0, (1, 2), (1, 3))]])
    run.when_waiting = cluster.catch_up_all
    run.run_batches()
    run.finish()
    return run.record.verify_audit()


def test_the_rights_of_the_document_are_enough_for_a_reassignment(with_rights):
    assert reassign(with_rights(RIGHTS)) > 8


@pytest.mark.parametrize("missing", RIGHTS)
def test_without_one_of_the_rights_the_error_says_that_access_is_denied(with_rights, missing):
    uri = with_rights([right for right in RIGHTS if right != missing])
    with pytest.raises(
        RecordUnavailableError, match=r"Cannot (read|write|create|list) s3://.*: .*(Forbidden|Denied|denied)"
    ):
        reassign(uri)
