"""One pass over one job: observe, validate, decide, record, perform, report; and the queue that starts passes."""
