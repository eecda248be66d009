"""Packs: objects that hold chunks of keyed state beside the state store; their names, their form, and how they are read."""
