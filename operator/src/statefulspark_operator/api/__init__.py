"""What users write and read: the models of `StatefulSparkJob`, and the CRD generated from them.

Pure: no I/O, no clock. Docstrings of fields become the CRD's descriptions, so they are written for users.
"""
