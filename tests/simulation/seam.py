"""Where the product meets the outside: clocks, connections, the record store, Spark; everything else runs as it is.

Only for processes of the simulator: what is replaced here stays replaced.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import time
import types
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from tests.simulation import caches, tables
from tests.simulation.activities import current
from tests.simulation.port import SimPort
from tests.simulation.stand_ins import in_place

if TYPE_CHECKING:
    from tests.simulation.airflow import SimAirflow
    from tests.simulation.world import World


class _Present:
    """The world that this process simulates now, and the Airflow whose code runs."""

    world: World


PRESENT = _Present()

in_force = ExitStack()
"""What stays replaced for the life of the process."""

PRODUCT = ("kafka_reassignment", "kafka_reassignment_airflow")
REAL_FILES = (
    "kafka_reassignment.cluster",
    "kafka_reassignment_airflow",
    "kafka_reassignment.templates",
    "kafka_reassignment.plan.report",
)
NEEDS_SPARK = ("kafka_reassignment.planner", "kafka_reassignment.cli")


def airflow_now() -> SimAirflow:
    """The Airflow whose task, trigger or person is at work."""
    return getattr(current(), "airflow", None) or PRESENT.world.airflow


def utc_now() -> datetime:
    """The virtual time."""
    return PRESENT.world.time.now


def _monotonic() -> float:
    return PRESENT.world.time.seconds


def _sleep(seconds: float) -> None:
    world, at_work = PRESENT.world, current()
    if at_work.is_about_to_wait:
        at_work.is_about_to_wait = False
        world.wait_in_task(at_work, seconds)
    else:
        world.time.sleep(seconds)


def _looks_of_tasks(real: Callable[..., Any]) -> Callable[..., Any]:
    """Note that a task has looked in vain: it sleeps until its next look then."""

    def audited_look(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        current().is_about_to_wait = type(result).__name__ == "Waiting"
        return result

    return audited_look


def record_store() -> Any:
    """The store on the simulated disk."""
    from kafka_reassignment.record.store import RecordStore

    return RecordStore(PRESENT.world.root)


class _Time(types.ModuleType):
    """Stands for the module ``time``."""

    monotonic = staticmethod(_monotonic)
    perf_counter = staticmethod(_monotonic)
    sleep = staticmethod(_sleep)

    @staticmethod
    def time() -> float:
        return PRESENT.world.time.now.timestamp()


class _Asyncio(types.ModuleType):
    """Stands for ``asyncio`` in triggers: a sleep is yielded to what drives the trigger."""

    @staticmethod
    @types.coroutine
    def sleep(seconds: float) -> Generator[float, None, None]:
        yield seconds


async def _in_a_thread(call: Callable[[], Any]) -> Any:
    return call()


class _OneByOne:
    """Stands for a thread pool."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def __enter__(self) -> _OneByOne:
        return self

    def __exit__(self, *_exc: object) -> None:
        pass

    def map(self, call: Callable[..., Any], *items: Iterable[Any]) -> list[Any]:
        return [call(*each) for each in zip(*items, strict=False)]

    def submit(self, call: Callable[..., Any], *args: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(call(*args))
        except Exception as error:  # noqa: BLE001 - a future raises it when its result is asked for
            done.set_exception(error)
        return done


class _TaskInstances:
    """Stands for ``RuntimeTaskInstance`` in triggers, which ask how many runs there are."""

    @staticmethod
    def get_dr_count(
        dag_id: str, run_ids: list[str] | None = None, states: list[str] | None = None, **_kwargs: Any
    ) -> int:
        return airflow_now().count_runs(dag_id, run_ids, states)

    @staticmethod
    def get_ti_count(
        dag_id: str,
        run_ids: list[str] | None = None,
        states: list[str] | None = None,
        task_ids: list[str] | None = None,
        **_kwargs: Any,
    ) -> int:
        return airflow_now().count_tasks(dag_id, run_ids or (), states or (), task_ids)


class _Configuration:
    """Stands for Airflow's configuration, which does not change while a process simulates."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._read: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        def read(*args: Any, **kwargs: Any) -> Any:
            key = (name, args, tuple(sorted(kwargs.items())))
            if key not in self._read:
                self._read[key] = getattr(self._real, name)(*args, **kwargs)
            return self._read[key]

        return read


def _uuid() -> UUID:
    return UUID(int=PRESENT.world.rng.getrandbits(128))


_TIME, _ASYNCIO = _Time("time"), _Asyncio("asyncio")


def _variable(name: str, default: Any = None, **_kwargs: Any) -> Any:
    return PRESENT.world.airflow.variables.get(name, default)


@cache
def install() -> None:
    """Import the product and put the simulation in the place of everything outside it."""
    import os

    os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    from airflow.providers.standard.operators import hitl
    from airflow.sdk import Variable
    from airflow.sdk.bases.operator import ExecutorSafeguard

    ExecutorSafeguard.test_mode = True
    hitl.upsert_hitl_detail = lambda **_kwargs: None
    Variable.get = staticmethod(_variable)  # type: ignore[method-assign]

    from tests.simulation import planner

    pipeline = types.ModuleType("kafka_reassignment.planner.pipeline")
    pipeline.plan = planner.plan  # type: ignore[attr-defined]
    session = types.ModuleType("kafka_reassignment.planner.session")
    session.planner_session = lambda *_args, **_kwargs: nullcontext()  # type: ignore[attr-defined]
    sys.modules[pipeline.__name__] = pipeline
    sys.modules[session.__name__] = session

    modules = _product_modules()
    for module in modules:
        _replace(module)
    in_force.enter_context(in_place([m for m in modules if not m.__name__.startswith(REAL_FILES)]))

    base = importlib.import_module("kafka_reassignment_airflow.base")
    base.audited_look = _looks_of_tasks(base.audited_look)  # type: ignore[attr-defined]

    caches.install(modules)
    hook = importlib.import_module("kafka_reassignment_airflow.hooks.reassignment").KafkaReassignmentHook
    hook.get_conn = lambda _self: SimPort(PRESENT.world.cluster, PRESENT.world.ledger, PRESENT.world.time.stir)
    hook.__init__ = lambda self, kafka_conn_id="kafka_default": setattr(self, "kafka_conn_id", kafka_conn_id)


def _product_modules() -> list[types.ModuleType]:
    found = []
    for name in PRODUCT:
        package = importlib.import_module(name)
        for info in pkgutil.walk_packages(package.__path__, f"{name}."):
            needs_more = info.name.startswith(NEEDS_SPARK) or ".cluster.zookeeper" in info.name
            if needs_more or ".web" in info.name or ".example_dags" in info.name or info.name.endswith("__main__"):
                continue
            found.append(importlib.import_module(info.name))
    return found


def _replace(module: types.ModuleType) -> None:
    names = {
        "utc_now": utc_now,
        "instance": lambda: airflow_now().name,
        "record_store": record_store,
        "plan_page": lambda *_args, **_kwargs: "",
        "write_snapshot": tables.write_snapshot,
        "read_replicas": tables.read_replicas,
        "in_a_thread": _in_a_thread,
    }
    objects = {
        id(time): _TIME,
        id(ThreadPoolExecutor): _OneByOne,
        id(uuid4): _uuid,
    }
    in_airflow = module.__name__.startswith("kafka_reassignment_airflow")
    for name, value in list(vars(module).items()):
        if name in names and callable(value):
            setattr(module, name, names[name])
        elif id(value) in objects:
            setattr(module, name, objects[id(value)])
        elif in_airflow and name == "conf":
            setattr(module, name, _Configuration(value))
        elif in_airflow and name == "asyncio":
            setattr(module, name, _ASYNCIO)
        elif in_airflow and name == "RuntimeTaskInstance":
            setattr(module, name, _TaskInstances)
        elif isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
            _replace_defaults(value)
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for made in vars(value).values():
                if isinstance(made, types.FunctionType):
                    _replace_defaults(made)


_DEFAULTS: dict[Any, Callable[..., Any]] = {time.sleep: _sleep, time.monotonic: _monotonic}


def _replace_defaults(function: types.FunctionType) -> None:
    def replaced(value: Any) -> Any:
        if getattr(value, "__name__", "") == "utc_now":
            return utc_now
        return _DEFAULTS.get(value, value) if isinstance(value, types.BuiltinFunctionType) else value

    if function.__defaults__:
        function.__defaults__ = tuple(map(replaced, function.__defaults__))
    if function.__kwdefaults__:
        function.__kwdefaults__ = {k: replaced(v) for k, v in function.__kwdefaults__.items()}
