package io.statefulspark.checkpoint;

import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOpStateStoreCheckpointInfo;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Keeps a batch from being committed with the state of one attempt of a stage and the rows of another.
 *
 * <p>When the shuffle files of a stage are lost, Spark runs the stage again for what comes after it. For the state of the
 * stage's operators it keeps the first attempt that succeeded ({@code StateStoreWriter.getStateStoreCheckpointInfo} of Spark
 * 4.2, "we just pick one"). Where functions depend on the order of rows, on a clock or on random numbers, the state of the
 * operator and all that follows it would disagree for good.
 *
 * <p>Only operators with a shuffle behind them are looked at. In the last stage, the result of a task is at the driver and
 * counts once; several states mean there that a function of {@code foreachBatch} has read its batch several times.
 */
final class StateAttempts {
  private StateAttempts() {}

  /**
   * Checks the batch that the running thread, the thread of a query, is about to commit.
   *
   * @throws StageRepeatedException if a stage with state has succeeded more than once in it
   */
  static void requireOne(LogEntry entry) throws StageRepeatedException {
    SparkPlan plan = RunningBatch.execution().map(execution -> execution.executedPlan()).orElse(null);
    if (plan != null) {
      require(entry, plan, false);
    }
  }

  private static void require(LogEntry entry, SparkPlan plan, boolean hasShuffleBehind) throws StageRepeatedException {
    if (hasShuffleBehind && plan instanceof StateStoreWriter operator) {
      Set<Integer> seen = new HashSet<>();
      for (StatefulOpStateStoreCheckpointInfo info : operator.checkpointInfoAccumulator().value()) {
        if (!seen.add(info.partitionId())) {
          throw new StageRepeatedException(entry.batch(), plan.nodeName(), info.partitionId());
        }
      }
    }
    for (SparkPlan child : CollectionConverters.asJava(plan.children())) {
      require(entry, child, hasShuffleBehind || plan instanceof Exchange);
    }
  }
}
