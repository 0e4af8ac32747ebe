"""The steps of a reassignment: observe, decide (``decisions``), act (``cluster``), record. No Airflow in here."""
