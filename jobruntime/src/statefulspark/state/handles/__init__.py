"""The handles with which a function declares, reads and writes state: one row per kind of state in `kinds`."""
