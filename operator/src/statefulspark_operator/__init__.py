"""Kubernetes operator for stateful PySpark streaming jobs."""

__version__ = "0.1.0"
