/**
 * Reads state of committed batches as tables, and writes tables as state, for canonical savepoints and offline reads.
 *
 * <p>Since Spark 4.2 its state data source reads all column families of a store (SPARK-54419), and its StateRewriter writes
 * new stores (SPARK-54924); on 4.1 these classes are not used. Rows are exchanged with Python
 * as Spark SQL structs, so that Spark's internal formats stay inside.
 */
package io.statefulspark.state;
