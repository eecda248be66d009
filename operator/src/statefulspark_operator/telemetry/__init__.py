"""The operator's logs, metrics and health."""
