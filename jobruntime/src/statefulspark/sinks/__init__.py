"""Sinks whose output is exact: each record once, whatever is killed.

```
base     what a sink is, and what it is told      kinds    the sinks that come along, a row each
staging  rows that wait for their commit          marker   what a sink remembers of its last commit
standing where a position is in a job's history   secret   passwords that are looked up late     extras  optional clients
```
"""
