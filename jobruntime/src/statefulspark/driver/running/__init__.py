"""The running queries: their start and end, their listeners, how far behind their sources they are."""
