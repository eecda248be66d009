"""Python workers that keep what belongs to a partition: whichever worker Spark picks, its tasks run where their state is.

`front` is what Spark takes for a worker, `keeper` hands its tasks to the processes that `serving` runs in, by the rules of
`homes`.
"""
