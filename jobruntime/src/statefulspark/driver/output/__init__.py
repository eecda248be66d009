"""From the result of a query function to committed output: sinks, their transactions, their errors."""
