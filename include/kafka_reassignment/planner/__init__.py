"""The planner: a PySpark pipeline from a snapshot of the cluster to batches of steps."""
