"""The display of a running job on a terminal."""
