"""The engine: plans Kafka replica reassignments and carries out their steps. It never imports Airflow."""
