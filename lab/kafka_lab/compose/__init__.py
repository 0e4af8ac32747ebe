"""What docker-compose.yml runs beside Airflow, and what looks at it: ``env`` and ``check`` on the host, the rest in containers."""
