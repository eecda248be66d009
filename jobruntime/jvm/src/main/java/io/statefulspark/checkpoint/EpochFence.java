package io.statefulspark.checkpoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;

/**
 * Stops a driver whose job has been taken over.
 *
 * <p>A driver claims the job by creating {@code epochs/<n>.json}; its successor creates {@code epochs/<n+1>.json}. Before
 * every log entry of any query this fence asks, with one request, whether that next epoch exists. If it does, the write
 * fails with {@link FencedException}, and so does every one after it. If the question cannot be answered, the write fails
 * too: "cannot tell" is not "absent".
 *
 * <p>The check and the write are two requests, so a batch may still be committed between them. That commit is valid, and
 * the conditional PUT makes it exclusive; the successor finds it and goes on from there.
 */
public final class EpochFence {
  private static volatile Path nextEpoch;
  private static volatile FencedException fencedBy;

  private EpochFence() {}

  /**
   * Turns the fence on for this process.
   *
   * @param nextEpochUri the object whose existence means that a newer driver owns the job, for example
   *     {@code s3a://bucket/prefix/ns/job/epochs/00000008.json}
   */
  public static synchronized void configure(String nextEpochUri) {
    nextEpoch = new Path(LogEntry.rootKey(nextEpochUri));
    fencedBy = null;
  }

  /** Turns the fence off; for tests, and for a process that runs another job. */
  public static synchronized void disable() {
    nextEpoch = null;
    fencedBy = null;
  }

  /** Tells whether a newer epoch has been seen; stays true until the fence is configured anew. */
  public static boolean fenced() {
    return fencedBy != null;
  }

  /** Returns the sentence of the failure, or "" when no newer epoch has been seen. */
  public static String message() {
    FencedException seen = fencedBy;
    return seen == null ? "" : seen.getMessage();
  }

  /**
   * Lets a write pass while no newer epoch exists.
   *
   * @throws FencedException a newer driver owns the job
   * @throws IOException it could not be found out
   */
  static void check(Configuration configuration, Path about) throws IOException {
    Path asked = nextEpoch;
    if (asked == null) {
      return;
    }
    if (fencedBy == null && exists(asked, configuration)) {
      fencedBy = new FencedException(describe(asked, about));
    }
    FencedException seen = fencedBy;
    if (seen != null) {
      throw new FencedException(seen.getMessage());
    }
  }

  private static boolean exists(Path path, Configuration configuration) throws IOException {
    try {
      FileSystem fs = path.getFileSystem(configuration);
      if (fs instanceof S3AFileSystem s3a) {
        s3a.getS3AInternals().getObjectMetadata(path);
        return true;
      }
      return fs.exists(path);
    } catch (FileNotFoundException absent) {
      return false;
    } catch (IOException failure) {
      if (failure instanceof InterruptedIOException && !(failure instanceof SocketTimeoutException)) {
        throw failure; // Spark tells a stop by this type.
      }
      throw new IOException("Could not find out whether a newer driver owns the job: looking up " + path
          + " failed, so nothing was written; check the storage.", failure);
    }
  }

  private static String describe(Path asked, Path about) {
    String next = asked.getName().replaceFirst("\\.json$", "");
    String own;
    try {
      own = String.format("%08d", Long.parseLong(next) - 1);
    } catch (NumberFormatException e) {
      own = "before it";
    }
    return "A newer driver owns the job: this driver has epoch " + own + ", and epoch " + next + " exists (" + asked
        + "). " + about + " was not written and this driver stops.";
  }
}
