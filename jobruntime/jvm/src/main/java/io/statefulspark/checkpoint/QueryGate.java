package io.statefulspark.checkpoint;

import java.io.InterruptedIOException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * Holds queries at the boundary between two batches, and records the progress of each.
 *
 * <p>One gate per query, by its checkpoint root. While a gate is closed, the write of the next {@code offsets/N} waits: the
 * query has committed batch N-1 and has not begun batch N. A batch that has begun continues to its commit. Stopping a
 * waiting query ends it without an error, because the interruption reaches Spark as an {@link InterruptedIOException}.
 *
 * <p>A batch counts as begun when its write passes the gate, not when the write is finished, so that a gate that is closed
 * in between does not report a boundary that the query is about to leave.
 *
 * <p>Every method takes strings and numbers and may be called from any thread; roots may be given as s3:// or s3a://.
 */
public final class QueryGate {
  private static final Map<String, QueryGate> GATES = new ConcurrentHashMap<>();

  private boolean closed;
  private boolean parked;
  private long begun;
  private long lastOffsets;
  private long lastCommitted;
  private boolean wroteOffsets;
  private long commits;
  private long committedAtMillis;
  private long committedAtNanos;
  private long missingFiles;
  private String missingFile = "";

  private QueryGate(long lastOffsets, long lastCommitted) {
    this.begun = lastOffsets;
    this.lastOffsets = lastOffsets;
    this.lastCommitted = lastCommitted;
  }

  /**
   * Registers a query; call it before each start of the query. The gate is open.
   *
   * @param root the query's checkpoint location
   * @param lastOffsets the newest batch in its offset log, -1 for none
   * @param lastCommitted the newest batch in its commit log, -1 for none
   */
  public static void register(String root, long lastOffsets, long lastCommitted) {
    QueryGate previous = GATES.put(LogEntry.rootKey(root), new QueryGate(lastOffsets, lastCommitted));
    if (previous != null) {
      previous.setClosed(false);
    }
  }

  /** Removes a query; a waiting query continues. */
  public static void unregister(String root) {
    QueryGate gate = GATES.remove(LogEntry.rootKey(root));
    if (gate != null) {
      gate.setClosed(false);
    }
  }

  /** Blocks further batches of the query. */
  public static void close(String root) {
    gate(root).setClosed(true);
  }

  /** Lets the query continue. */
  public static void open(String root) {
    gate(root).setClosed(false);
  }

  /** Tells whether the gate is closed and every begun batch is committed. */
  public static boolean atBoundary(String root) {
    QueryGate gate = gate(root);
    synchronized (gate) {
      return gate.isAtBoundary();
    }
  }

  /**
   * Waits until the query is at a boundary with its gate closed.
   *
   * @return whether it is; false after the timeout, or at once if the gate is open
   */
  public static boolean awaitBoundary(String root, long timeoutMs) throws InterruptedException {
    return gate(root).await(timeoutMs);
  }

  /** Returns the newest committed batch, -1 for none. */
  public static long lastCommitted(String root) {
    QueryGate gate = gate(root);
    synchronized (gate) {
      return gate.lastCommitted;
    }
  }

  /** Returns the newest batch whose offsets are written, -1 for none. */
  public static long lastOffsets(String root) {
    QueryGate gate = gate(root);
    synchronized (gate) {
      return gate.lastOffsets;
    }
  }

  /** Returns when the newest commit since {@link #register} was written, in milliseconds since 1970; 0 for none. */
  public static long committedAtMillis(String root) {
    QueryGate gate = gate(root);
    synchronized (gate) {
      return gate.committedAtMillis;
    }
  }

  /**
   * Returns all gates as one JSON object: root to {@code closed}, {@code parked} (a write waits), {@code atBoundary},
   * {@code begun}, {@code lastOffsets}, {@code lastCommitted}, {@code commits} (since register), {@code
   * committedAtMillis} (since 1970) and {@code committedAtNanos} ({@link System#nanoTime}), both 0 before the first; {@code
   * missingFiles} (since register) and {@code missingFile}, the newest of them.
   */
  public static String snapshot() {
    return new TreeMap<>(GATES).entrySet().stream()
        .map(entry -> quoted(entry.getKey()) + ":" + entry.getValue().toJson())
        .collect(Collectors.joining(",", "{", "}"));
  }

  /** Waits while the gate of the entry's query is closed, then counts its batch as begun. */
  static void pass(LogEntry entry) throws InterruptedIOException {
    QueryGate gate = GATES.get(entry.root());
    if (gate != null && entry.log() == LogEntry.Log.OFFSETS) {
      gate.begin(entry.batch());
    }
  }

  /** Records a log entry that is durable. */
  static void written(LogEntry entry) {
    QueryGate gate = GATES.get(entry.root());
    if (gate != null) {
      gate.record(entry);
    }
  }

  /** Records input files that were gone before a batch, which is about to be committed, has read them. */
  static void missing(LogEntry entry, List<String> files) {
    QueryGate gate = GATES.get(entry.root());
    if (gate != null && !files.isEmpty()) {
      synchronized (gate) {
        gate.missingFiles += files.size();
        gate.missingFile = files.get(files.size() - 1);
      }
    }
  }

  /**
   * Tells whether an entry is the next one of a log that this process writes, so only another driver can have written it.
   * The conditional PUT detects another driver, so a check before it would only add a request.
   */
  static boolean isNext(LogEntry entry) {
    QueryGate gate = GATES.get(entry.root());
    return gate != null && gate.expects(entry);
  }

  private static QueryGate gate(String root) {
    QueryGate gate = GATES.get(LogEntry.rootKey(root));
    if (gate == null) {
      throw new IllegalArgumentException("No query with the checkpoint root " + root + " is registered; registered are "
          + GATES.keySet() + ".");
    }
    return gate;
  }

  private synchronized void setClosed(boolean closed) {
    this.closed = closed;
    notifyAll();
  }

  private synchronized void begin(long batch) throws InterruptedIOException {
    parked = closed;
    try {
      while (closed) {
        wait();
      }
    } catch (InterruptedException e) {
      throw (InterruptedIOException) new InterruptedIOException(
          "Stopped while waiting at the boundary before batch " + batch).initCause(e);
    } finally {
      parked = false;
    }
    begun = batch;
  }

  private synchronized void record(LogEntry entry) {
    if (entry.log() == LogEntry.Log.OFFSETS) {
      lastOffsets = entry.batch();
      wroteOffsets = true;
    } else {
      lastCommitted = entry.batch();
      commits++;
      committedAtMillis = System.currentTimeMillis();
      committedAtNanos = System.nanoTime();
    }
    notifyAll();
  }

  private synchronized boolean expects(LogEntry entry) {
    return switch (entry.log()) {
      case OFFSETS -> wroteOffsets && entry.batch() == lastOffsets + 1;
      case COMMITS -> wroteOffsets && entry.batch() == lastOffsets && entry.batch() > lastCommitted;
    };
  }

  private synchronized boolean await(long timeoutMs) throws InterruptedException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    while (closed && !isAtBoundary()) {
      long leftMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
      if (leftMs <= 0) {
        return false;
      }
      wait(leftMs);
    }
    return isAtBoundary();
  }

  private boolean isAtBoundary() {
    return closed && begun <= lastCommitted;
  }

  private synchronized String toJson() {
    return String.format(
        "{\"closed\":%b,\"parked\":%b,\"atBoundary\":%b,\"begun\":%d,\"lastOffsets\":%d,\"lastCommitted\":%d,"
            + "\"commits\":%d,\"committedAtMillis\":%d,\"committedAtNanos\":%d,\"missingFiles\":%d,\"missingFile\":%s}",
        closed, parked, isAtBoundary(), begun, lastOffsets, lastCommitted, commits, committedAtMillis, committedAtNanos,
        missingFiles, quoted(missingFile));
  }

  private static String quoted(String text) {
    return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }
}
