"""What Airflow's list of providers shows of this distribution, and the options of its section in the configuration.

Airflow reads this while it starts, before its configuration is complete: nothing of Airflow is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

PACKAGE = "kafka_reassignment_airflow"
INTEGRATION = "Kafka reassignment"
SECTION = "kafka_reassignment"

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "record_uri": {
        "description": (
            "Base URI of the records. It may name an Airflow connection, as s3://my_conn@bucket/path. Every process that "
            "runs tasks, triggers or the API server must reach it. Default: file://$AIRFLOW_HOME/kafka_reassignments."
        ),
        "version_added": "0.1.0",
        "type": "string",
        "example": "s3://my_conn@bucket/reassignments",
        "default": None,
    },
    "instance": {
        "description": (
            "Name of this Airflow among those that share the records. Two of them never continue each other's "
            "reassignments. Default: [api] base_url."
        ),
        "version_added": "0.1.0",
        "type": "string",
        "example": "airflow-berlin",
        "default": None,
    },
    "retry_delay_seconds": {
        "description": "Base of the delays between tries, in seconds: one to two times this before the first retry, two to four times before the second, and so on, at most 12 times. Airflow draws it.",
        "version_added": "0.1.0",
        "type": "float",
        "example": None,
        "default": "10",
    },
    "approve_from_gb": {
        "description": "A plan that copies at least so many GB waits for an approval, whatever its request says. Empty: no plan does.",
        "version_added": "0.1.0",
        "type": "float",
        "example": None,
        "default": "500",
    },
    "approve_from_hours": {
        "description": "A plan that takes at least so many hours at its rate waits for an approval. Empty: no plan does.",
        "version_added": "0.1.0",
        "type": "float",
        "example": None,
        "default": "4",
    },
    "second_approver": {
        "description": "Whether two different people have to approve, wherever one is asked.",
        "version_added": "0.1.0",
        "type": "boolean",
        "example": None,
        "default": "False",
    },
    "connections": {
        "description": (
            "Kafka connections that the forms offer, as 'id = what it is for', separated by ';'. Any other id can be typed. "
            "Default: the connections of type kafka in the environment of the DAG processor."
        ),
        "version_added": "0.1.0",
        "type": "string",
        "example": "kafka_berlin = Berlin, production; kafka_test = test cluster",
        "default": None,
    },
    "notifiers": {
        "description": (
            "Who is told, through notifiers of any provider: a JSON list of objects with classpath, kwargs (templates see told: "
            "event, subject, text, link, reassignment_id) and, if not all, events (approval_wanted, held, resumed, failed, finished)."
        ),
        "version_added": "0.1.0",
        "type": "string",
        "sensitive": True,  # kwargs may have a token; and Airflow takes the option from a command or a secrets backend then
        "example": (
            '[{"classpath": "airflow.providers.smtp.notifications.smtp.SmtpNotifier", "kwargs": {"to": "kafka@example.com", '
            '"subject": "{{ told.subject }}", "html_content": "{{ told.text | e }} {{ told.link | e }}"}}]'
        ),
        "default": None,
    },
    "plan_queue": {
        "description": (
            "Queue of the task 'plan' alone, for executors with queues: only its workers need Java. Default: Airflow's."
        ),
        "version_added": "0.1.0",
        "type": "string",
        "example": "spark",
        "default": None,
    },
    "plan_pool": {
        "description": "Pool of the task 'plan' alone: it bounds how many plans are made at a time. Default: Airflow's.",
        "version_added": "0.1.0",
        "type": "string",
        "example": "planners",
        "default": None,
    },
    "plan_executor": {
        "description": "Executor of the task 'plan' alone, one of those in [core] executor. Default: Airflow's.",
        "version_added": "0.1.0",
        "type": "string",
        "example": "KubernetesExecutor",
        "default": None,
    },
    "maintenance_schedule": {
        "description": "Cron expression of the DAG kafka_maintenance_window. Without it, the DAG runs only when triggered.",
        "version_added": "0.1.0",
        "type": "string",
        "example": "0 22 * * sat",
        "default": None,
    },
    "maintenance_time_zone": {
        "description": "Time zone of maintenance_schedule, an IANA name.",
        "version_added": "0.1.0",
        "type": "string",
        "example": "Europe/Berlin",
        "default": "UTC",
    },
}
"""The section ``[kafka_reassignment]``."""


def get_provider_info() -> dict[str, Any]:
    """Return the metadata of Airflow's entry point ``apache_airflow_provider``.

    The connection type ``kafka`` is not among them: the Apache Kafka provider registers it.
    """
    return {
        "package-name": "kafka-reassignment",
        "name": INTEGRATION,
        "description": "Moves Kafka replicas safely, batch by batch: plans, throttles, expands, waits for the ISR, drops, verifies.",
        "integrations": [{"integration-name": INTEGRATION, "tags": ["software"]}],
        "operators": _listed("operators"),
        "sensors": _listed("sensors"),
        "hooks": _listed("hooks"),
        "triggers": _listed("triggers"),
        "bundles": [{"integration-name": INTEGRATION, "python-modules": [f"{PACKAGE}.bundle"]}],
        "config": {
            SECTION: {
                "description": "Records, retries, where plans are made, and the maintenance schedule.",
                "options": dict(OPTIONS),
            }
        },
    }


def modules(kind: str) -> list[str]:
    """Return the modules of a package below this one, such as ``operators``."""
    return sorted(f"{PACKAGE}.{kind}.{module.name}" for module in iter_modules([str(Path(__file__).parent / kind)]))


def _listed(kind: str) -> list[dict[str, Any]]:
    return [{"integration-name": INTEGRATION, "python-modules": modules(kind)}]
