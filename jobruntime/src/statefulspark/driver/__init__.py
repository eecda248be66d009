"""One driver of a job: it claims the state, starts the queries, takes snapshots, and reports its status.

```
start, prepare, assemble   from a configuration to running queries; check stops before anything is written
loop, commands, quiesce    the coordinator's commands, performed by one thread
snapshot_writer, commit    makes a snapshot durable, then lets the sinks commit
control, status            the requests of the HTTP API and its answers
```
Decisions are taken below: by the coordinator, by recovery and by evolution.
"""
