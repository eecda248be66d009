package io.statefulspark.storage;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.util.zip.CRC32C;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;

/**
 * Hadoop's S3A, which reads a file from {@link FilesAhead} where it is there, and writes a checksum beside each table of state.
 */
public final class ReadAheadFileSystem extends S3AFileSystem {
  private static final String TABLE = ".sst";
  private static final String CHECKSUM = ".crc";
  private static final String NO_PROBES = "fs.s3a.create.performance";

  /** Hadoop creates the file system by its class name. */
  public ReadAheadFileSystem() {}

  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    TrustedAuthorities.trust(conf);
    super.initialize(name, conf);
  }

  @Override
  public FSDataInputStream open(Path file, int bufferSize) throws IOException {
    Path path = makeQualified(file);
    java.nio.file.Path copy = FilesAhead.copyOf(path);
    if (copy == null) {
      return super.open(file, bufferSize);
    }
    return FileSystem.getLocal(getConf()).getRaw().open(new Path(copy.toUri()), bufferSize);
  }

  /** Spark gets the tables of a snapshot with this, at names that the snapshot gives; with the other one we get files of ours. */
  @Override
  public void copyToLocalFile(boolean deleteSource, Path source, Path target) throws IOException {
    StateTables.requirePlace(source, target);
    super.copyToLocalFile(deleteSource, source, target);
  }

  /** Spark compares the sizes of what it got with those that the snapshot names. */
  @Override
  public void copyToLocalFile(boolean deleteSource, Path source, Path target, boolean useRawLocalFileSystem)
      throws IOException {
    if (deleteSource || !wasTaken(makeQualified(source), target)) {
      super.copyToLocalFile(deleteSource, source, target, useRawLocalFileSystem);
    }
  }

  /**
   * Spark puts the tables of a snapshot with this. It writes a checksum beside all its other files of state, and none beside
   * these; an etag proves their content only where it is an MD5, which it is not with SSE-KMS, SSE-C or an upload in parts.
   */
  @Override
  public void copyFromLocalFile(boolean deleteSource, boolean overwrite, Path source, Path target) throws IOException {
    if (target.getName().endsWith(TABLE)) {
      putChecksum(java.nio.file.Path.of(source.toUri().getPath()), target);
    }
    super.copyFromLocalFile(deleteSource, overwrite, source, target);
  }

  /** Writes the fields of Spark's checksum files that a reader needs. It comes first: a snapshot never names a table without. */
  private void putChecksum(java.nio.file.Path source, Path target) throws IOException {
    CRC32C sum = new CRC32C();
    long size = 0;
    byte[] buffer = new byte[1 << 16];
    try (InputStream in = Files.newInputStream(source)) {
      for (int read = in.read(buffer); read > 0; read = in.read(buffer)) {
        sum.update(buffer, 0, read);
        size += read;
      }
    }
    String json = "{\"algorithm\":\"CRC32C\",\"value\":" + (int) sum.getValue() + ",\"mainFileSize\":" + size + "}";
    FSDataOutputStreamBuilder<?, ?> file = createFile(target.suffix(CHECKSUM)).recursive().overwrite(true);
    file.opt(NO_PROBES, true);
    try (OutputStream out = file.build()) {
      out.write(json.getBytes(StandardCharsets.UTF_8));
    }
  }

  private static boolean wasTaken(Path source, Path target) throws IOException {
    try {
      return FilesAhead.take(source, java.nio.file.Path.of(target.toUri().getPath()));
    } catch (NoSuchFileException e) {
      return false; // Another task took it in between, or the target has no folder, which the store's client makes.
    }
  }
}
