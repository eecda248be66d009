"""The calls of the HTTP API to a running driver, and their answers."""
