"""The progress page's application, made when it is first asked for something."""

from __future__ import annotations

from typing import Any


class LazyApp:
    """The application, made at its first request: every process of Airflow loads the plugin, the api-server alone serves."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request (ASGI)."""
        if self._app is None:
            from kafka_reassignment_airflow.web.app import create_app  # noqa: PLC0415 - FastAPI is slow to import

            self._app = create_app()
        await self._app(scope, receive, send)
