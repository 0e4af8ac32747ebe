"""One shard's placement: which of its partitions change, and how. Pure numpy and Python; runs on the executors."""
