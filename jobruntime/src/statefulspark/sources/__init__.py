"""Stateful sources."""
