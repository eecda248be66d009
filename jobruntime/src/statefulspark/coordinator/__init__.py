"""The checkpoint coordinator: a pure state machine. Events go in, commands come out; no clock, no thread, no I/O."""
