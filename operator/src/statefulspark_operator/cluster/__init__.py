"""The outside world: Kubernetes, the driver's HTTP API and storage, each behind a small port.

Errors of libraries end here; what leaves is a value or an error of `statefulspark.errors`.
"""
