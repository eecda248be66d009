"""How the product's commands are declared, what they print and how they end: the base of each of its executables.

It has no command of its own, and knows neither storage nor drivers nor Kubernetes.
"""
