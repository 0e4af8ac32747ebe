"""The threads in which triggers look: the clients block, and asyncio's own few threads are shared by all triggers."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

MOST_THREADS = 128
"""Each is started when it is needed. A look at a cluster that is away takes half a minute: it keeps no other cluster waiting."""

_THREADS = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="kafka_reassignment_look")


async def in_a_thread(call: Callable[[], T]) -> T:
    """Return what a call returns that blocks, as ``asyncio.to_thread`` does."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_THREADS, context.run, call)
