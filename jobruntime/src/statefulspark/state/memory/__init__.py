"""State in a worker's memory: tables, the current key, time to live and clean-up."""
