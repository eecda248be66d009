"""From a configuration to a job that runs: a start, a check and a standby, which are one page up to the first write."""
