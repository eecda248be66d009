package io.statefulspark.checkpoint;

import org.apache.hadoop.fs.Path;

/**
 * The position of one file in a query's write-ahead log, read from its path: {@code <root>/offsets/7} or
 * {@code <root>/commits/7}. No other file of a checkpoint is a log entry.
 */
record LogEntry(String root, Log log, long batch) {

  enum Log {
    OFFSETS,
    COMMITS
  }

  /** Returns the entry at a path, or null when the path is no log entry. */
  static LogEntry of(Path path) {
    Path folder = path.getParent();
    if (folder == null || folder.getParent() == null) {
      return null;
    }
    Log log = logOf(folder.getName());
    long batch = batchOf(path.getName());
    return log == null || batch < 0 ? null : new LogEntry(rootKey(folder.getParent().toString()), log, batch);
  }

  /** Returns a root in its normal form: a Hadoop path without a trailing slash, S3 as s3a. */
  static String rootKey(String root) {
    String hadoopRoot = root.startsWith("s3://") ? "s3a://" + root.substring("s3://".length()) : root;
    return new Path(hadoopRoot).toString();
  }

  private static Log logOf(String folder) {
    return switch (folder) {
      case "offsets" -> Log.OFFSETS;
      case "commits" -> Log.COMMITS;
      default -> null;
    };
  }

  private static long batchOf(String name) {
    try {
      return Long.parseLong(name);
    } catch (NumberFormatException e) {
      return -1;
    }
  }
}
