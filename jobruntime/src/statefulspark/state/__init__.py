"""Keyed state: the states a user declares, key groups, and the chunks they are stored as."""
