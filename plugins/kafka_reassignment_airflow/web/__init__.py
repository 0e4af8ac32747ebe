"""The progress page in Airflow's UI."""
