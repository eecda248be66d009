"""What a worker keeps of state between two tasks: key groups as objects, and the disk tier for the rest."""
