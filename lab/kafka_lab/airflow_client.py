"""The REST API of a local Airflow, as the demo and the tests use it."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential


class AirflowApiError(Exception):
    """The REST API answered with an error; the text is its own."""


class _DatabaseBusyError(AirflowApiError):
    """SQLite let another process write first; what was asked for was rolled back."""


class AirflowClient:
    """Triggers, looks at and clears runs.

    Args:
        url: address of the api-server and the UI.
        user: who logs in; once, at the first call that needs it.
        password: of that user.
    """

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = url
        self.user = user
        self.password = password
        self._token = ""
        self._client = httpx.Client(base_url=url, timeout=60, trust_env=False)

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def health(self) -> dict[str, str]:
        """Return the status of each component."""
        health = self._open("GET", "/api/v2/monitor/health", authorized=False)
        return {name: part["status"] for name, part in health.items() if isinstance(part, dict)}

    def page(self, path: str) -> httpx.Response:
        """GET a page or a file of the api-server as who is signed in; whatever it answers."""
        return self._client.get(path, headers=self._signed_in())

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """GET below ``/api/v2``."""
        asked = f"?{urllib.parse.urlencode(query, doseq=True)}" if query else ""
        return self._open("GET", f"/api/v2{path}{asked}")

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST a JSON body below ``/api/v2``."""
        return self._open("POST", f"/api/v2{path}", body)

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """PATCH with a JSON body below ``/api/v2``."""
        return self._open("PATCH", f"/api/v2{path}", body)

    def delete(self, path: str) -> None:
        """DELETE below ``/api/v2``."""
        self._open("DELETE", f"/api/v2{path}")

    def trigger(self, dag_id: str, conf: Mapping[str, Any], run_id: str) -> str:
        """Trigger a run as the UI's form does and return its id."""
        body = {"conf": dict(conf), "dag_run_id": run_id, "logical_date": None}
        return str(self.post(f"/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run: queued, running, success or failed."""
        return str(self.get(f"/dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id, safe='')}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """Return the task instances of a run by task id."""
        run = urllib.parse.quote(run_id, safe="")
        found = self.get(f"/dags/{dag_id}/dagRuns/{run}/taskInstances", limit=100)["task_instances"]
        return {ti["task_id"]: ti for ti in found}

    def find_tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """Return the task instances of a run by task id; none when there is no such run."""
        try:
            return self.tasks(dag_id, run_id)
        except AirflowApiError as error:
            if "HTTP 404" in str(error):
                return {}
            raise

    def runs(self, dag_id: str) -> dict[str, str]:
        """Return the states of all runs of a DAG by run id."""
        found = self.get(f"/dags/{dag_id}/dagRuns", limit=100, order_by="id")["dag_runs"]
        return {run["dag_run_id"]: run["state"] for run in found}

    def clear(
        self,
        dag_id: str,
        run_id: str,
        *,
        task_ids: list[str] | None = None,
        only_failed: bool,
        downstream: bool = False,
    ) -> list[str]:
        """Clear task instances as the UI does and return their ids; they run again."""
        body: dict[str, Any] = {
            "dry_run": False,
            "dag_run_id": run_id,
            "only_failed": only_failed,
            "include_downstream": downstream,
            "reset_dag_runs": True,
        }
        if task_ids:
            body["task_ids"] = task_ids
        cleared = self.post(f"/dags/{dag_id}/clearTaskInstances", body)
        return [ti["task_id"] for ti in cleared["task_instances"]]

    def task_log(self, dag_id: str, run_id: str, task_id: str, try_number: int) -> str:
        """Return the log of one try of a task as plain text."""
        run = urllib.parse.quote(run_id, safe="")
        answer = self.get(
            f"/dags/{dag_id}/dagRuns/{run}/taskInstances/{task_id}/logs/{try_number}", full_content="true"
        )
        return "\n".join(
            str(line.get("event", line)) if isinstance(line, dict) else str(line) for line in answer["content"]
        )

    def _open(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, authorized: bool = True
    ) -> dict[str, Any]:
        busy = retry_if_exception_type(_DatabaseBusyError)
        attempts = Retrying(retry=busy, stop=stop_after_attempt(5), wait=wait_random_exponential(max=2), reraise=True)
        return attempts(self._request, method, path, body, authorized=authorized)

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None, *, authorized: bool) -> dict[str, Any]:
        headers = self._signed_in() if authorized else {}
        try:
            answer = self._client.request(method, path, json=body, headers=headers)
        except httpx.TransportError as error:
            raise AirflowApiError(f"{method} {path}: {error}") from error
        if answer.is_error:
            busy = answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR and "Database error" in answer.text
            kind = _DatabaseBusyError if busy else AirflowApiError
            raise kind(f"{method} {path}: HTTP {answer.status_code} {answer.text[:2000]}")
        parsed: dict[str, Any] = answer.json() if answer.content else {}
        return parsed

    def _signed_in(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._login()}"}

    def _login(self) -> str:
        if not self._token:
            body = {"username": self.user, "password": self.password}
            self._token = str(self._open("POST", "/auth/token", body, authorized=False)["access_token"])
        return self._token
