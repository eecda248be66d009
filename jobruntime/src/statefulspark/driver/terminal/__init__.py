"""What a person at a terminal is shown while the job runs."""
