"""The state that a worker keeps between two tasks: key groups as objects, and the disk tier for the rest."""
