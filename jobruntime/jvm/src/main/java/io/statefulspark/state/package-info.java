/**
 * Reads state of committed batches as tables, and writes tables as state, for canonical savepoints and offline reads.
 *
 * <p>Written for Spark 4.2: its state data source reads all column families of a store, its StateRewriter writes new
 * stores. Rows are exchanged with Python as Spark SQL structs, so that Spark's internal formats stay inside.
 */
package io.statefulspark.state;
