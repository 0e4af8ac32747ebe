"""The steps of a reassignment: observe, decide (``planning``), act (``cluster``), record. No Airflow in here."""
