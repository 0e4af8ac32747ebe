"""The record: everything known about a reassignment, under one base URI, apart from Airflow's database."""
