"""The models of the resource `StatefulSparkJob`, and the CRD that is generated from them.

Pure: no I/O, no clock. Docstrings of fields become the CRD's descriptions, so they are written for users.
"""
