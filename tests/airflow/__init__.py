"""Tests with Airflow; a package, so that one Airflow is shared by its modules and ends with the last."""
