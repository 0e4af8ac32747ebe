"""The pod template of docs/executors.md, as the Kubernetes executor of Airflow's provider reads it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.environments import environment

from kafka_lab.airflow import PROJECT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

READ = """
import sys
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator
pod = PodGenerator.deserialize_model_file(sys.argv[1])
[container] = pod.spec.containers
print(container.name, pod.spec.restart_policy, pod.spec.security_context.run_as_non_root, len(container.env))
"""


def test_airflows_provider_reads_the_pod_template(tmp_path: Path) -> None:
    [template] = re.findall(r"```yaml\n(.*?)```", (PROJECT / "docs" / "executors.md").read_text(), re.DOTALL)
    (tmp_path / "pod.yaml").write_text(template)
    python = environment(tmp_path / "venv", "apache-airflow", "apache-airflow-providers-cncf-kubernetes")
    done = subprocess.run(
        [python, "-c", READ, tmp_path / "pod.yaml"],
        env={"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "base Never True 2"
