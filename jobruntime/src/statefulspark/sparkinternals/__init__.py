"""What differs between the releases of Spark that are supported: one place for each difference, named by Spark's ticket.

Everything else calls what these releases have in common, and asks no version. `tests/spark/internals` says what is relied
on, and CONTRIBUTING.md how a release is added. The Java side has the same room: `io.statefulspark.internals`.
"""
