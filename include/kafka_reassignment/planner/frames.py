"""Arrow schemas as Spark types."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType


def struct_of(schema: pa.Schema) -> StructType:
    """Return an Arrow schema as a Spark type."""
    return from_arrow_schema(schema)
