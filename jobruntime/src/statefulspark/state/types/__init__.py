"""Values of state: their types as text, their form as bytes, and the way between a user's types and stored ones."""
