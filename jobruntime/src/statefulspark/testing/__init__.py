"""Stores and sources for testing jobs: in memory, faulty, crashing on purpose."""
