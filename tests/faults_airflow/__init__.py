"""Whole reassignments on a real Airflow and real brokers, while things go wrong and people interfere, from seeds."""
