"""The version of this distribution, for modules that must not import the rest of it."""

__version__ = "0.1.0"
