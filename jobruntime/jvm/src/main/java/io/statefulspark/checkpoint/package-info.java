/**
 * Extensions of Spark's JVM: they write checkpoint files, hold a query at a batch boundary, and detect that a newer driver
 * owns the job.
 *
 * <p>Spark loads {@link io.statefulspark.checkpoint.ConditionalCheckpointFileManager} by name, in the driver and in every
 * executor. {@link io.statefulspark.checkpoint.QueryGate} and {@link io.statefulspark.checkpoint.EpochFence} are static,
 * run only in the driver, and are called from Python with strings and numbers.
 */
package io.statefulspark.checkpoint;
