"""Faults, each a named scenario under load, and what they lost, repeated and cost: `python -m faults`.

`s3proxy` stands before the object store and breaks requests on purpose, `world` runs the job of `load` as real
processes before real servers, `local` has the scenarios that need no cluster, `matrix` runs them and writes a row for
each, and `soak` runs random ones. `changes` has what is done to a job on purpose, `executors` what happens on nodes of
their own, and `every` all of them.
"""
