"""The external systems: Kubernetes, the driver's HTTP API and storage, each behind a small port.

Errors of libraries are translated here: these modules return values or raise errors of `statefulspark.errors`.
"""
