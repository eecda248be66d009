"""What a job file puts into a query: keyed state, Spark's own processors, functions with operator state.

```
keyed        keyed_process and its short forms
transform    Spark's StatefulProcessor on our state
groupstate   Spark's applyInPandasWithState on our state
functions    sources and sinks with operator state, on the driver
```
"""
