/**
 * What the product adds inside Spark's JVM: how checkpoint files are written, where a query waits at a batch boundary, and
 * how a driver learns that a newer one owns the job.
 *
 * <p>Spark loads {@link io.statefulspark.checkpoint.ConditionalCheckpointFileManager} by name, in the driver and in every
 * executor. {@link io.statefulspark.checkpoint.QueryGate} and {@link io.statefulspark.checkpoint.EpochFence} are static,
 * live in the driver only, and are called from Python with strings and numbers.
 */
package io.statefulspark.checkpoint;
