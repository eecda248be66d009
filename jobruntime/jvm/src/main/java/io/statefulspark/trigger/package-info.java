/**
 * When a query's next batch begins.
 *
 * <p>Written for Spark 4.1 to 4.3, whose executor of triggers in processing time is reached for by the name of a field.
 */
package io.statefulspark.trigger;
