package io.statefulspark.storage;

import java.io.IOException;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

/** Hadoop's file system of this machine, which copies the tables of a snapshot only to where Spark has its state. */
public final class LocalStateFileSystem extends LocalFileSystem {
  /** Hadoop creates the file system by its class name. */
  public LocalStateFileSystem() {}

  @Override
  public void copyToLocalFile(boolean deleteSource, Path source, Path target) throws IOException {
    StateTables.requirePlace(source, target);
    super.copyToLocalFile(deleteSource, source, target);
  }
}
