/**
 * State of stopped or committed queries as tables, and tables as state, for canonical savepoints and for reading offline.
 *
 * <p>Written against Spark 4.2: its state data source reads all column families of a store, its StateRewriter writes stores
 * anew. Rows cross the border to Python as Spark SQL structs, so that no format of Spark's own gets out.
 */
package io.statefulspark.state;
