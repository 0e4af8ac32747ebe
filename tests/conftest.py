"""Shared fixtures of all tests."""

import signal

pytest_plugins = ["tests.kafka_fixtures", "tests.spark_fixtures", "tests.airflow_fixtures"]

# A script starts its background jobs with SIGINT ignored, and children inherit that: whoever runs the tests so
# would wait for ever on those that press Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
