package io.statefulspark.storage;

import java.io.IOException;
import java.nio.file.NoSuchFileException;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;

/** Hadoop's S3A, which reads a file from {@link FilesAhead} where it is there. */
public final class ReadAheadFileSystem extends S3AFileSystem {
  /** Hadoop creates the file system by its class name. */
  public ReadAheadFileSystem() {}

  @Override
  public FSDataInputStream open(Path file, int bufferSize) throws IOException {
    Path path = makeQualified(file);
    java.nio.file.Path copy = FilesAhead.copyOf(path);
    if (copy == null) {
      return super.open(file, bufferSize);
    }
    return FileSystem.getLocal(getConf()).getRaw().open(new Path(copy.toUri()), bufferSize);
  }

  /** Spark gets the tables of a snapshot with this; it compares their sizes with those that the snapshot names. */
  @Override
  public void copyToLocalFile(boolean deleteSource, Path source, Path target, boolean useRawLocalFileSystem)
      throws IOException {
    if (deleteSource || !wasTaken(makeQualified(source), target)) {
      super.copyToLocalFile(deleteSource, source, target, useRawLocalFileSystem);
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
