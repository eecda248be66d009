"""Builds what a release consists of, and refuses to when its parts disagree."""
