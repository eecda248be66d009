"""The flights job on this machine, shown to a person: `make demo-local`. No Kubernetes, no root."""
