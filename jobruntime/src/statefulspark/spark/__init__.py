"""Everything that touches PySpark: session, query gate, keyed operators, the running job."""
