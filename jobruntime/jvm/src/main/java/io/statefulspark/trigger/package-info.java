/**
 * When a query's next batch begins.
 *
 * <p>Written for Spark 4.2, whose executor of triggers in processing time is reached for by the name of a field.
 */
package io.statefulspark.trigger;
