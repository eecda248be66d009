"""Python workers that keep keyed state: a task runs in the process that has its state, whichever worker Spark picks.

Spark starts the `proxy` as its worker. `header` reads what a task works on, `pool` assigns tasks with state to processes by
the rules of `placement`, and `worker` runs in these processes.
"""
