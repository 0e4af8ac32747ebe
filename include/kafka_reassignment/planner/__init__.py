"""The planner: a PySpark pipeline from a snapshot of the cluster to batches of steps."""

import warnings

# PySpark 4.3 says so at every start, and in Airflow such a line stands as an error.
warnings.filterwarnings("ignore", message="PySpark does not (yet )?fully support pandas", category=FutureWarning)
