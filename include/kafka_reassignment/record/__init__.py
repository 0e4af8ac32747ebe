"""The record: everything known about a reassignment, under one base URI, independent of Airflow's database."""
