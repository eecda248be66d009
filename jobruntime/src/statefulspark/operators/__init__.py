"""Operators that a job file uses in a query: keyed state, Spark's processors, functions with operator state.

```
keyed        keyed_process and its shortcuts
transform    Spark's StatefulProcessor on our state
groupstate   Spark's applyInPandasWithState on our state
functions    sources and sinks with operator state, on the driver
```
"""
