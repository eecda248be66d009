"""The driver's HTTP API and metrics."""
