"""A plan, decided and frozen: tables, files, hash, JSON, summary, re-batching, inverse, report. No Spark."""
