package io.statefulspark.output;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
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
 */
final class FileSink implements Sink {
  private final SparkSession session;
  private final FileStreamSink sink;
  private final Path path;
  private long offset;
  private boolean knowsOffset;

  FileSink(SparkSession session, FileStreamSink sink, Path path) {
    this.session = session;
    this.sink = sink;
    this.path = path;
  }

  @Override
  public void addBatch(long batch, Dataset<Row> rows) {
    if (!knowsOffset) {
      offset = offset(batch);
      knowsOffset = true;
    }
    sink.addBatch(batch + offset, rows);
  }

  /** Returns what is added to the numbers of the running query; notes it with the query's first batch in this folder. */
  private long offset(long batch) {
    String query = session.sparkContext().getLocalProperty(StreamExecution.QUERY_ID_KEY());
    Configuration configuration = session.sessionState().newHadoopConf();
    try {
      Path log = FileStreamSink.getMetadataLogPath(path.getFileSystem(configuration), path, session.sessionState().conf());
      FileStreamSinkLog entries = new FileStreamSinkLog(FileStreamSinkLog.VERSION(), session, log.toString(), Option.empty());
      CheckpointFileManager files = CheckpointFileManager.create(log, configuration);
      Path note = new Path(log, "begun-" + query);
      if (!files.exists(note)) {
        write(files, note, reserve(entries) + 1 - batch);
      }
      return read(files, note);
    } catch (IOException e) {
      throw FileSink.<RuntimeException>unchecked(e);
    }
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

  private static void write(CheckpointFileManager files, Path note, long offset) throws IOException {
    CheckpointFileManager.CancellableFSDataOutputStream out = files.createAtomic(note, false);
    try {
      out.write(Long.toString(offset).getBytes(StandardCharsets.UTF_8));
      out.close();
    } catch (FileAlreadyExistsException written) {
      out.cancel(); // By a driver that was replaced meanwhile; its number counts.
    }
  }

  private static long read(CheckpointFileManager files, Path note) throws IOException {
    try (FSDataInputStream in = files.open(note)) {
      return Long.parseLong(new String(in.readAllBytes(), StandardCharsets.UTF_8));
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
}
