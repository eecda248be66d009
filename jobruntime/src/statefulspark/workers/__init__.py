"""Python workers that keep keyed state: whichever worker Spark picks, a task with state runs where the state is.

`front` is what Spark takes for a worker, `header` tells it what a task is, `keeper` hands tasks with state to the processes
that `serving` runs in, by the rules of `homes`.
"""
