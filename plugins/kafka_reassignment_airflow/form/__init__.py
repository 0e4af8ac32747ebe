"""The trigger forms: one pydantic model per form, and Airflow's params made from its JSON schema.

A title, a description, a default or a bound is written once, at the model's field: for a reassignment in
``kafka_reassignment.request`` (P, R and L in ``request/limits.py``), for the other DAGs in ``form/models.py``.
Airflow's form and API check what a schema can say; the first task of a run checks the rest with the same model.
"""
