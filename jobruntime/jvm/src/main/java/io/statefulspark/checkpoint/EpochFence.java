package io.statefulspark.checkpoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;

/**
 * Stops the writes of a driver whose job another driver has taken over, or whose state was deleted.
 *
 * <p>A driver claims the job by creating {@code epochs/<n>.json}; its successor creates {@code epochs/<n+1>.json}. Before
 * every file of a query that Spark writes once, this fence checks, with one request, whether that next epoch exists. If it
 * does, the write and every later one fail with {@link FencedException}. If the check fails, the write fails, too: an
 * unknown state is never treated as absence.
 *
 * <p>Who deletes the state claims an epoch first and leaves the record of that one alone. A driver of an older epoch finds
 * neither the next record nor its own. So its own record is looked up, too, if that was not done for ten seconds: a driver
 * that has slept looks before its first write.
 *
 * <p>The check and the write are two requests, so a batch may still be committed between them. That commit is valid, and
 * the conditional PUT makes it exclusive; the successor finds it and continues from there.
 */
public final class EpochFence {
  private static final long OWN_EVERY_NANOS = TimeUnit.SECONDS.toNanos(10);

  private static volatile Path nextEpoch;
  private static volatile Path ownEpoch;
  private static volatile long ownSeenAt;
  private static volatile FencedException fencedBy;
  private static volatile String claim;

  private EpochFence() {}

  /**
   * Turns the fence on for this process.
   *
   * @param nextEpochUri the object that exists only if a newer driver owns the job, for example
   *     {@code s3a://bucket/prefix/ns/job/epochs/00000008.json}
   */
  public static synchronized void configure(String nextEpochUri) {
    Path next = new Path(LogEntry.rootKey(nextEpochUri));
    ownEpoch = new Path(next.getParent(), before(next) + ".json");
    ownSeenAt = System.nanoTime() - OWN_EVERY_NANOS;
    nextEpoch = next;
    fencedBy = null;
    claim = null;
  }

  /**
   * Lets what this process writes once tell which driver has written it.
   *
   * @param claimId the id of the driver's claim, as the record of its epoch has it
   */
  public static synchronized void sign(String claimId) {
    claim = claimId;
  }

  /** Returns the id of this driver's claim; null if it was not told. */
  static String claim() {
    return claim;
  }

  /** Turns the fence off; for tests, and for a process that runs another job. */
  public static synchronized void disable() {
    nextEpoch = null;
    fencedBy = null;
    claim = null;
  }

  /** Tells whether a newer epoch or a deletion was detected; stays true until the fence is configured again. */
  public static boolean fenced() {
    return fencedBy != null;
  }

  /** Returns the message of the failure, or "" if nothing was detected. */
  public static String message() {
    FencedException failure = fencedBy;
    return failure == null ? "" : failure.getMessage();
  }

  /**
   * Allows a write while no newer epoch exists and the own one does.
   *
   * @throws FencedException a newer driver owns the job, or its state was deleted
   * @throws IOException the check failed
   */
  static void check(Configuration configuration, Path file) throws IOException {
    Path epoch = nextEpoch;
    if (epoch == null) {
      return;
    }
    if (fencedBy == null && exists(epoch, configuration)) {
      fencedBy = new FencedException("A newer driver owns the job: this driver has epoch " + before(epoch) + ", and epoch "
          + number(epoch) + " exists (" + epoch + ")." + refused(file));
    }
    if (fencedBy == null && isOwnGone(configuration)) {
      fencedBy = new FencedException("The state of the job was deleted: this driver has epoch " + before(epoch) + ", and "
          + ownEpoch + " does not exist any more." + refused(file));
    }
    FencedException failure = fencedBy;
    if (failure != null) {
      throw new FencedException(failure.getMessage());
    }
  }

  private static boolean isOwnGone(Configuration configuration) throws IOException {
    long now = System.nanoTime();
    if (now - ownSeenAt < OWN_EVERY_NANOS) {
      return false;
    }
    if (!exists(ownEpoch, configuration)) {
      return true;
    }
    ownSeenAt = now;
    return false;
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
        throw failure; // Spark recognises a stop by this type.
      }
      throw new IOException("Could not find out whether a newer driver owns the job: looking up " + path
          + " failed, so nothing was written; check the storage.", failure);
    }
  }

  private static String refused(Path file) {
    return " " + file + " was not written and this driver stops.";
  }

  private static String number(Path epoch) {
    return epoch.getName().replaceFirst("\\.json$", "");
  }

  private static String before(Path epoch) {
    return String.format("%08d", Long.parseLong(number(epoch)) - 1);
  }
}
