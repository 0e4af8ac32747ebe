"""Each exit code has one meaning, and what a person can cause leaves no stack."""

import signal
import subprocess
import sys
import time
import tomllib

import pytest
import typer
from typer.testing import CliRunner

from kafka_lab.airflow import PROJECT
from kafka_reassignment import errors
from kafka_reassignment.cli import app
from kafka_reassignment.cli.exit_codes import Commands, ExitCode, exit_code

pytestmark = pytest.mark.longer


def raising(error: BaseException) -> typer.Typer:
    """A command line whose one command ends with an error."""
    made = typer.Typer(cls=Commands)

    @made.callback()
    def main() -> None: ...

    @made.command()
    def fail() -> None:
        raise error

    return made


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.UnknownBrokerError, ExitCode.USAGE),
        (errors.ClusterUnavailableError, ExitCode.UNREACHABLE),
        (errors.RecordUnavailableError, ExitCode.UNREACHABLE),
        (errors.NotAuthorizedError, ExitCode.REFUSED),
        (errors.UnhealthyClusterError, ExitCode.REFUSED),
        (errors.ReassignmentInProgressError, ExitCode.REFUSED),
        (errors.RecordError, ExitCode.NOT_FOUND),
        (errors.RecordDamagedError, ExitCode.DAMAGED),
        (errors.RecordStoreUnusableError, ExitCode.NOT_HERE),
        (errors.PlannerMissingError, ExitCode.NOT_HERE),
    ],
)
def test_an_error_has_the_code_of_its_kind_and_its_own_words(kind, code):
    assert exit_code(kind("why")) is code
    ended = CliRunner().invoke(raising(kind("why it is so")), ["fail"])
    assert (ended.exit_code, ended.stderr, ended.stdout) == (code, "why it is so\n", "")


def test_every_error_of_the_engine_has_a_code():
    kinds = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.ReassignmentError)]
    assert len(kinds) > 30
    assert {exit_code(kind.__new__(kind)) for kind in kinds} <= set(ExitCode) - {ExitCode.DONE, ExitCode.NOT_SO}


def test_an_error_of_the_command_itself_shows_its_stack_and_has_a_code_of_its_own():
    ended = CliRunner().invoke(raising(ZeroDivisionError("of the code")), ["fail"])
    assert ended.exit_code == ExitCode.BUG
    assert "ZeroDivisionError: of the code" in ended.stderr


def test_a_person_who_says_no_has_answered():
    assert CliRunner().invoke(raising(typer.Abort()), ["fail"]).exit_code == ExitCode.NOT_SO


def test_ctrl_c_has_its_code_also_where_something_else_failed_because_of_it():
    caused = RuntimeError("Spark's process has ended")
    caused.__context__ = KeyboardInterrupt()
    at_a_question = typer.Abort()  # as typer raises it there
    at_a_question.__context__ = KeyboardInterrupt()
    for error in (KeyboardInterrupt(), caused, at_a_question):
        ended = CliRunner().invoke(raising(error), ["fail"])
        assert (ended.exit_code, ended.stderr) == (ExitCode.INTERRUPTED, "Interrupted\n")


@pytest.mark.parametrize("arguments", [["no-such-command"], ["list", "--no-such-option"], ["audit", "show", "c"]])
def test_what_is_typed_wrong_is_usage(arguments, monkeypatch):
    monkeypatch.delenv("AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI", raising=False)
    assert CliRunner().invoke(app, arguments).exit_code == ExitCode.USAGE


@pytest.mark.parametrize("seconds", ["inf", "1e12", "86401", "0.5"])
def test_an_interval_that_no_clock_can_wait_for_is_usage(seconds):
    ended = CliRunner().invoke(app, ["watch", "--bootstrap-server", "localhost:1", "--interval", seconds])
    assert (ended.exit_code, "--interval" in ended.stderr) == (ExitCode.USAGE, True)


def test_json_that_is_nested_too_deep_is_usage(tmp_path):
    file = tmp_path / "deep.json"
    file.write_text("[" * 100_000)
    ended = CliRunner().invoke(app, ["list", "--connection", str(file)])
    assert (ended.exit_code, "must be a JSON object of librdkafka keys, found: maximum rec" in ended.stderr) == (
        ExitCode.USAGE,
        True,
    )


def test_a_record_uri_that_names_no_store_is_said_in_words():
    ended = CliRunner().invoke(app, ["lock", "show", "c", "--record-uri", "nosuch://bucket/folder"])
    assert (ended.exit_code, ended.stderr[:50]) == (
        ExitCode.USAGE,
        "--record-uri nosuch://bucket/folder names no store",
    )


@pytest.mark.parametrize("tell", ["typer.echo", "console.print"])
def test_who_stops_reading_ends_the_command_without_a_word(tell):
    script = (
        "import typer; from kafka_reassignment.cli.exit_codes import Commands\n"
        "from kafka_reassignment.cli.common import console\n"
        "app = typer.Typer(cls=Commands)\n"
        "@app.callback()\ndef main(): ...\n"
        "@app.command()\ndef talk(): [" + tell + "('word ' * 1000) for _ in range(1000)]\n"
        "app()"
    )
    talking = subprocess.Popen([sys.executable, "-c", script, "talk"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    talking.stdout.close()
    assert (talking.stderr.read(), talking.wait(60)) == (b"", ExitCode.PIPE_CLOSED)


def test_ctrl_c_while_the_cluster_does_not_answer():
    script = "from kafka_reassignment.cli import app; print('ready', flush=True); app()"
    running = subprocess.Popen(
        [sys.executable, "-c", script, "list", "--bootstrap-server", "10.255.255.1:9092"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.readline() == "ready\n"
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert (running.returncode, said) == (ExitCode.INTERRUPTED, "Interrupted\n")


PRESSED_IN = """
import os, signal, sys
class Presser:
    "Presses Ctrl-C when a module is looked for."
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Presser())
sys.argv = ["kafka-reassignment", "--version"]
from kafka_reassignment.command import main
main()
"""


def run_pressing_in(module, **how):
    command = [sys.executable, "-c", PRESSED_IN.format(module=module)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, **how)


def start_of_the_command():
    scripts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["scripts"]
    return scripts["kafka-reassignment"]


@pytest.mark.parametrize(
    "module", ["kafka_reassignment.cli", "typer", "pydantic_core", "kafka_reassignment.cli.watch", "rich.console"]
)
def test_ctrl_c_while_the_command_imports_what_it_needs(module):
    assert start_of_the_command() == "kafka_reassignment.command:main"
    ended = run_pressing_in(module)
    assert (ended.returncode, ended.stdout, ended.stderr) == (ExitCode.INTERRUPTED, "", "Interrupted\n")


def test_ctrl_c_that_is_ignored_stays_so():
    running = run_pressing_in("typer", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert (running.returncode, running.stderr) == (ExitCode.DONE, "")
