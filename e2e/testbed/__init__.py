"""What the end-to-end scenarios stand on: one real cluster, one small job, and the exact truth about its output.

`bed` is the cluster with its S3 server and operator, `job` one resource in a namespace of its own, `totals` the oracle.
The scenarios themselves are in `e2e/scenarios`.
"""
