/**
 * Reads from the object store what is not on this machine already.
 *
 * <p>{@link io.statefulspark.storage.ReadAheadFileSystem} is Hadoop's S3A, which takes files of state from
 * {@link io.statefulspark.storage.FilesAhead} where a standby has put them.
 */
package io.statefulspark.storage;
