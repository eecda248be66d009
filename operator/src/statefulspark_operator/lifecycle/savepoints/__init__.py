"""The rules for `SparkSavepoint` objects, one question for each module. Pure.

Whose turn it is, what came of a request, when the next is due, which are pruned, what a name stands for; docs/adr/0022
says how they work together.
"""
