package io.statefulspark.output;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink;
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSinkLog;
import org.apache.spark.sql.execution.streaming.sinks.SinkFileStatus;
import scala.Option;

/**
 * Spark's sink of files, which is told the numbers that follow in its own log.
 *
 * <p>The log ({@code _spark_metadata}) has an entry for each batch, without gaps, and the sink leaves a batch out whose
 * number the log has. A generation that begins at an older batch has another query id; with its first batch it
 * takes the next numbers of the log, and notes beside the log which batch they begin with. So a batch that runs again has its
 * number again, and no other batch has it.
 *
 * <p>A batch whose number the log has is left out only if it is this query's newest one, which ran before. Otherwise another
 * query has taken the log over, for example that of a copy of the job, or the state is older than the log says: the batch
 * fails, instead of being left out.
 */
final class FileSink implements Sink {
  private static final String NOTE = "begun-";
  private static final int OFFSET = 0;
  private static final int RESERVED = 1;

  private final SparkSession session;
  private final FileStreamSink sink;
  private final Path path;
  private Numbers numbers;

  FileSink(SparkSession session, FileStreamSink sink, Path path) {
    this.session = session;
    this.sink = sink;
    this.path = path;
  }

  @Override
  public void addBatch(long batch, Dataset<Row> rows) {
    try {
      if (numbers == null) {
        numbers = numbers(batch);
      }
      requireOwn(batch + numbers.offset);
    } catch (IOException e) {
      throw FileSink.<RuntimeException>unchecked(e);
    }
    sink.addBatch(batch + numbers.offset, rows);
  }

  /** Returns the numbers of the running query; notes them with the query's first batch in this folder. */
  private Numbers numbers(long batch) throws IOException {
    Configuration configuration = session.sessionState().newHadoopConf();
    Path log = FileStreamSink.getMetadataLogPath(path.getFileSystem(configuration), path, session.sessionState().conf());
    FileStreamSinkLog entries = new FileStreamSinkLog(FileStreamSinkLog.VERSION(), session, log.toString(), Option.empty());
    CheckpointFileManager files = CheckpointFileManager.create(log, configuration);
    Path note = new Path(log, NOTE + session.sparkContext().getLocalProperty(StreamExecution.QUERY_ID_KEY()));
    if (!files.exists(note)) {
      long reserved = reserve(entries);
      write(files, note, reserved + 1 - batch, reserved);
    }
    return new Numbers(log, entries, files, note, read(files, note)[OFFSET]);
  }

  /** Fails if Spark's sink would leave out a batch that is not known to have run before. */
  private void requireOwn(long number) throws IOException {
    Option<Object> newest = numbers.entries.getLatestBatchId();
    if (newest.isEmpty() || (Long) newest.get() < number) {
      return;
    }
    if ((Long) newest.get() > number || isTakenOver(number)) {
      throw new IllegalStateException("The log of " + path + " has batch " + newest.get() + ", and this query comes to batch "
          + number + ": another query has begun to write there, for example that of a copy of this job, or the state of this"
          + " query was put back. Spark would leave the rows out. Write to a folder of its own, or start from a snapshot by"
          + " name, which takes the folder over.");
    }
  }

  private boolean isTakenOver(long number) throws IOException {
    for (FileStatus other : numbers.files.list(numbers.log, file -> file.getName().startsWith(NOTE))) {
      if (!other.getPath().getName().equals(numbers.note.getName()) && read(numbers.files, other.getPath())[RESERVED] >= number) {
        return true;
      }
    }
    return false;
  }

  /**
   * Takes the next number of a log with an entry that names no file. A driver that was replaced, and whose entry is still on
   * its way, finds the number taken; without that, its entry would have this query leave its own batch out.
   */
  private static long reserve(FileStreamSinkLog entries) {
    while (true) {
      Option<Object> newest = entries.getLatestBatchId();
      long next = newest.isEmpty() ? 0 : (Long) newest.get() + 1;
      if (entries.add(next, new SinkFileStatus[0])) {
        return next;
      }
    }
  }

  private static void write(CheckpointFileManager files, Path note, long offset, long reserved) throws IOException {
    CheckpointFileManager.CancellableFSDataOutputStream out = files.createAtomic(note, false);
    try {
      out.write((offset + "\n" + reserved).getBytes(StandardCharsets.UTF_8));
      out.close();
    } catch (FileAlreadyExistsException written) {
      out.cancel(); // By a driver that was replaced meanwhile; its number counts.
    }
  }

  /** Returns the offset of a query's numbers, and the number that was reserved before its first batch. */
  private static long[] read(CheckpointFileManager files, Path note) throws IOException {
    try (FSDataInputStream in = files.open(note)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8).lines().mapToLong(Long::parseLong).toArray();
    }
  }

  @Override
  public String toString() {
    return sink.toString();
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }

  /** What the running query knows of its folder: its log, its note there, and what is added to its numbers. */
  private record Numbers(Path log, FileStreamSinkLog entries, CheckpointFileManager files, Path note, long offset) {}
}
