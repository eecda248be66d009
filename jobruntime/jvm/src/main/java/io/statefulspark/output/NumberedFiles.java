package io.statefulspark.output;

import io.statefulspark.internals.Differences;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** Makes Spark's sink of files, with numbers of batches that follow those of the sink's log; see {@link FileSink}. */
public final class NumberedFiles implements StreamSinkProvider {
  /** The option that has the format which the user has chosen. */
  static final String FORMAT = "statefulspark.format";

  @Override
  public Sink createSink(SQLContext context, Map<String, String> options, Seq<String> partitions, OutputMode mode) {
    SparkSession session = (SparkSession) context.sparkSession();
    Map<String, String> own = options.removed(FORMAT);
    Sink sink = Differences.sink(session, options.apply(FORMAT), partitions, own, mode);
    if (!(sink instanceof FileStreamSink)) {
      throw new IllegalStateException(options.apply(FORMAT) + " makes " + sink + ", and not Spark's sink of files.");
    }
    return new FileSink(session, (FileStreamSink) sink, new Path(options.apply("path")));
  }
}
