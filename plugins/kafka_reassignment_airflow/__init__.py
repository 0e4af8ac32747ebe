"""Everything that knows Airflow: hook, operators, sensors, triggers."""
