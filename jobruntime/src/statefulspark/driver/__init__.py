"""One driver of a job: it claims the state, starts the queries, takes snapshots, and says what it does.

```
start, prepare, assemble   from a configuration to running queries; check stops before anything is written
loop, commands, quiesce    the coordinator's commands, performed by one thread
snapshot_writer, commit    a cut made durable, then sinks told
control, status            what the HTTP API asks and is told
```
Decisions are taken below: by the coordinator, by recovery and by evolution.
"""
