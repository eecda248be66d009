"""Hostile bytes for everything that reads storage or the network: each reader answers, or refuses in its own words."""
