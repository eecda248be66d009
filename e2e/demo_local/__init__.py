"""The flights job on this machine, shown to a person: `make demo`. No Kubernetes, no root."""
