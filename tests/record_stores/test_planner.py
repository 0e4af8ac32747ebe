"""The planner, with its snapshot and its plan in each kind of store."""

import pytest
from tests.record_stores.servers import SECRET

from kafka_reassignment.plan.store import read_batches, read_summary, read_target_table
from kafka_reassignment.planner.pipeline import plan
from kafka_reassignment.request import Job, ReassignmentRequest

pytestmark = pytest.mark.spark

DECOMMISSION = ReassignmentRequest(job=Job.DECOMMISSION, brokers=(1,), unthrottled=True)


@pytest.mark.parametrize("driver_partitions", [0, 1_000], ids=["in shards", "on the driver"])
def test_a_plan_that_is_made_there_is_the_one_that_is_made_on_a_disk(
    spark, cluster, base, tmp_path, driver_partitions, caplog
):
    cluster.racks(a=(1, 2), b=(3, 4)).topic("orders", *[[1, 3], [1, 4], [2, 4]] * 5)
    on_disk, there = f"{tmp_path}/disk", f"{base.uri}/plans/000001"
    on_disk_summary = plan(
        spark,
        cluster.write(f"{on_disk}/snapshot"),
        DECOMMISSION,
        on_disk,
        driver_partitions=driver_partitions,
    )
    summary = plan(spark, cluster.write(f"{there}/snapshot"), DECOMMISSION, there, driver_partitions=driver_partitions)
    assert summary == on_disk_summary == read_summary(there)
    assert read_target_table(there) == read_target_table(on_disk)
    last = len(summary.batches)
    assert read_batches(there, 1, last)[0] == read_batches(on_disk, 1, last)[0]
    assert SECRET not in caplog.text
