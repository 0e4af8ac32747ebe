"""Shared fixtures of all tests."""

pytest_plugins = ["tests.kafka_fixtures", "tests.spark_fixtures", "tests.airflow_fixtures"]
