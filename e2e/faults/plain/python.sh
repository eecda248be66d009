#!/bin/sh
# Python for Spark's workers, with PySpark as it is installed. Spark puts its zip of the same modules before it, which has none of
# them compiled: on a busy machine a worker's start then takes longer than the ten seconds that Spark allows, whatever is set.
PYTHONPATH='' exec "$INSTALLED_PYTHON" "$@"
