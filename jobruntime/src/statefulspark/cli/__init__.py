"""The `statefulspark` command."""
