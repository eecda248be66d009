"""Exactly-once sinks: each record is written once, after any failure.

```
base     the sink protocol and its context        kinds    the built-in sinks, one row each
staging  rows that wait for their commit          marker   the last committed position of a sink
standing order of positions over lineages         secret   secrets that are read when used
```
"""
