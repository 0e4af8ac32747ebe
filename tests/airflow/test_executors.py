"""What docs/executors.md shows for Kubernetes is a pod as Airflow asks for one; tests/install/test_pod_template.py lets Airflow read it."""

import re

import pytest
import yaml

from kafka_lab.airflow import PROJECT

pytestmark = pytest.mark.quick


def test_the_pod_template_has_what_airflow_asks_for():
    (text,) = re.findall(r"```yaml\n(.*?)```", (PROJECT / "docs" / "executors.md").read_text(), re.DOTALL)
    pod = yaml.safe_load(text)
    assert (pod["apiVersion"], pod["kind"], pod["spec"]["restartPolicy"]) == ("v1", "Pod", "Never")
    (container,) = pod["spec"]["containers"]
    assert container["name"] == "base"
    settings = {each["name"]: each["value"] for each in container["env"]}
    assert settings["AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI"].startswith("s3://")
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
