package io.statefulspark.checkpoint;

import java.util.Optional;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;

/** The batch that the running thread, the thread of a query, is about to commit. */
final class RunningBatch {
  private RunningBatch() {}

  /** Returns how Spark executes the batch; empty in a thread of no query. */
  static Optional<IncrementalExecution> execution() {
    if (SparkSession.getActiveSession().isEmpty()) {
      return Optional.empty();
    }
    SparkSession session = SparkSession.getActiveSession().get();
    for (StreamExecution query : session.sharedState().activeStreamingQueries().values()) {
      if (query.queryExecutionThread() == Thread.currentThread()) {
        return Optional.ofNullable(query.lastExecution());
      }
    }
    return Optional.empty();
  }
}
