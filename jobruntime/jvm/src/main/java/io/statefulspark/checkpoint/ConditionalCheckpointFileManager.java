package io.statefulspark.checkpoint;

import io.statefulspark.state.BinaryPickler;
import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Writes Spark's checkpoints to S3 with one PUT per file and no rename.
 *
 * <p>Files that must not be overwritten (offsets, commits, metadata) are PUT with If-None-Match, so exactly one of several
 * drivers writes a log entry. Every failure of {@code close()} is reported to Spark; the manager of spark-hadoop-cloud
 * ignores it, so that a batch counts as committed without its file. These files pass the {@link EpochFence}, the entries of
 * offsets and commits the {@link QueryGate}, and those of commits {@link StateAttempts} and {@link InputFiles}, too.
 *
 * <p>Local folders work in the same way for development: a temporary file is linked or renamed to its name.
 */
public final class ConditionalCheckpointFileManager implements CheckpointFileManager {
  static {
    // Spark makes a manager in every JVM with state before it reads any, and no other class of ours.
    BinaryPickler.register();
  }

  private final Path root;
  private final Configuration configuration;
  private final FileSystem fs;
  private final FilePublisher publisher;

  /** Spark creates the manager by its class name. */
  public ConditionalCheckpointFileManager(Path path, Configuration configuration) throws IOException {
    this.root = path;
    this.configuration = configuration;
    this.fs = path.getFileSystem(configuration);
    this.publisher = publisherFor(fs, path);
  }

  private static FilePublisher publisherFor(FileSystem fs, Path path) throws IOException {
    if (fs instanceof S3AFileSystem && fs.hasPathCapability(path, ObjectPublisher.CONDITIONAL_CREATE)) {
      return new ObjectPublisher(fs);
    }
    if (fs.getScheme().equals("file")) {
      return new LocalPublisher();
    }
    throw new UnsupportedFileSystemException("The checkpoint location " + path + " (" + fs.getClass().getName()
        + ") cannot create a file on condition that it does not exist; use s3a://.");
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    try {
      LogEntry entry = overwriteIfPossible ? null : LogEntry.of(fs.makeQualified(path));
      if (entry != null) {
        QueryGate.pass(entry);
        if (entry.log() == LogEntry.Log.COMMITS) {
          StateAttempts.requireOne(entry);
          InputFiles.requireAll(entry);
        }
      }
      FilePublisher.Draft draft = overwriteIfPossible ? publisher.replace(path) : publisher.create(path);
      return new Output(draft, path, entry, !overwriteIfPossible);
    } catch (IOException e) {
      throw sneaky(e);
    }
  }

  /** A file that becomes visible as a whole when it is closed, and never after a failure or a cancel. */
  private final class Output extends CancellableFSDataOutputStream {
    private final FilePublisher.Draft draft;
    private final Path path;
    private final LogEntry entry;
    private final boolean isFenced;
    private boolean done;

    /**
     * @param entry the entry of a write-ahead log that the file is, or null
     * @param isFenced whether a newer driver forbids the file: all that Spark writes once and reads back at a start, so
     *     the logs of sources as well. What it replaces, files of state, has names that no other driver uses.
     */
    Output(FilePublisher.Draft draft, Path path, LogEntry entry, boolean isFenced) {
      super(draft.stream());
      this.draft = draft;
      this.path = path;
      this.entry = entry;
      this.isFenced = isFenced;
    }

    @Override
    public void cancel() {
      if (!done) {
        done = true;
        draft.discard();
      }
    }

    @Override
    public void close() throws IOException {
      if (done) {
        return;
      }
      done = true;
      if (isFenced) {
        passFence();
      }
      draft.publish();
      if (entry != null) {
        QueryGate.written(entry);
      }
    }

    private void passFence() throws IOException {
      try {
        EpochFence.check(configuration, path);
      } catch (IOException e) {
        draft.discard();
        throw e;
      }
    }
  }

  @Override
  public FSDataInputStream open(Path path) {
    try {
      return fs.open(path);
    } catch (IOException e) {
      throw sneaky(e);
    }
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    try {
      return fs.listStatus(path, filter);
    } catch (IOException e) {
      throw sneaky(e);
    }
  }

  @Override
  public FileStatus[] list(Path path) {
    return list(path, any -> true);
  }

  @Override
  public void mkdirs(Path path) {
    try {
      fs.mkdirs(path);
    } catch (IOException e) {
      throw sneaky(e);
    }
  }

  /**
   * Log entries are plain objects, so one HEAD suffices; {@code FileSystem.exists} adds a LIST for a missing one. Spark
   * checks before it writes each entry; no request is made for the next entry of its own log, see
   * {@link QueryGate#isNext}.
   */
  @Override
  public boolean exists(Path path) {
    try {
      LogEntry entry = LogEntry.of(fs.makeQualified(path));
      if (entry == null || !(fs instanceof S3AFileSystem s3a)) {
        return fs.exists(path);
      }
      if (QueryGate.isNext(entry)) {
        return false;
      }
      s3a.getS3AInternals().getObjectMetadata(path);
      return true;
    } catch (FileNotFoundException absent) {
      return false;
    } catch (IOException e) {
      throw sneaky(e);
    }
  }

  @Override
  public void delete(Path path) {
    try {
      fs.delete(path, true);
    } catch (FileNotFoundException gone) {
      // The file is already absent, as requested.
    } catch (IOException e) {
      throw sneaky(e);
    }
  }

  @Override
  public boolean isLocal() {
    return publisher instanceof LocalPublisher;
  }

  @Override
  public Path createCheckpointDirectory() {
    Path qualified = fs.makeQualified(root);
    mkdirs(qualified);
    return qualified;
  }

  @Override
  public void close() {
    // The whole process shares the file system.
  }

  /** Throws an I/O error through Scala's interface, which declares none; Spark catches it by its type. */
  @SuppressWarnings("unchecked")
  private static <T extends Throwable> RuntimeException sneaky(Throwable error) throws T {
    throw (T) error;
  }
}
