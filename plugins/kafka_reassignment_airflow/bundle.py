"""The DAGs of this distribution as a DAG bundle, so that an Airflow loads them from where they are installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

INSTALLED = Path(__file__).parent / "dags"
CHECKOUT = Path(__file__).parents[2] / "dags"


class KafkaReassignmentDagBundle(LocalDagBundle):
    """The DAG files that came with the installed wheel, or those of the checkout that is installed in editable mode.

    It is an entry of ``[dag_processor] dag_bundle_config_list``, on every component, beside the bundle of your own DAGs::

        {"name": "kafka_reassignment", "classpath": "kafka_reassignment_airflow.bundle.KafkaReassignmentDagBundle", "kwargs": {}}
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(path=str(INSTALLED if INSTALLED.is_dir() else CHECKOUT), **kwargs)
