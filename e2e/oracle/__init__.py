"""The truth about the flights, by other code than the job's, and the comparison of every result with it.

Plain Python over the raw file: no Spark, no pandas, no line shared with `examples/flights/`. `truth` computes what must
come out, `results` reads what did come out, `compare` sets one against the other, over every key and every field.
"""
