"""The progress page's application, created at its first request."""

from __future__ import annotations

from typing import Any


class LazyApp:
    """Creates the application at its first request: every process of Airflow loads the plugin, only the API server serves it."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request (ASGI)."""
        if self._app is None:
            from kafka_reassignment_airflow.web.app import create_app  # noqa: PLC0415 - FastAPI is slow to import

            self._app = create_app()
        await self._app(scope, receive, send)
