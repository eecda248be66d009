"""The generated pages of the documentation: what they say comes from enums, models, parsers and docstrings.

`python -m sitepages --write` writes them (`make pages`), and a test compares what is committed with what would be written.
"""
