"""What a function declares, reads and writes state with: one row per kind of state in `kinds`."""
