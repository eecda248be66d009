"""A module that makes a session when it is imported, as older projects have it."""

import os

from pyspark.sql import SparkSession

builder = SparkSession.builder.appName("mine").config("spark.sql.shuffle.partitions", "3")
for name, value in (item.split("=") for item in os.environ.get("TEST_CONF", "").split(",") if item):
    builder = builder.config(name, value)
spark = builder.getOrCreate()
