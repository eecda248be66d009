"""A bare streaming start: PySpark as it comes, one aggregation, a checkpoint on the local disk. FOLDER is argument 1."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    .getOrCreate()
)
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).option("numPartitions", 2).load()
counts = rows.groupBy("value").count().writeStream.outputMode("update").format("noop")
counts.option("checkpointLocation", f"{sys.argv[1]}/checkpoint").start().awaitTermination()
