"""What the HTTP API asks of a running driver, and the answers."""
