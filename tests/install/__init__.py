"""The pages about installing, followed line by line, on a secured cluster and a record on S3."""
