"""Sinks whose output is exact: each record once, whatever is killed."""
