"""The rules for `SparkSavepoint` objects: whose turn it is, what came of a request, when the next is due, which are pruned.

Pure. One question for each module; docs/adr/0022 says how they work together.
"""
