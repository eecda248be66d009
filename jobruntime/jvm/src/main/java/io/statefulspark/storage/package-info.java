/**
 * Reads from the object store what is not on this machine already, and believes nobody else that something is absent.
 *
 * <p>{@link io.statefulspark.storage.ReadAheadFileSystem} is Hadoop's S3A, which takes files of state from
 * {@link io.statefulspark.storage.FilesAhead} where a standby has put them; {@link
 * io.statefulspark.storage.NotFoundInterceptor} tells the store's 404 from that of a proxy before it; {@link
 * io.statefulspark.storage.ContentMd5Interceptor} sends a checksum with each upload.
 */
package io.statefulspark.storage;
