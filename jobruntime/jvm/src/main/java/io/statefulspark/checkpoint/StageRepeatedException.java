package io.statefulspark.checkpoint;

import java.io.IOException;

/**
 * A batch was not committed, because a stage with state ran more than once in it; the batch can run again.
 *
 * <p>The driver knows it by the class in brackets: Spark tells the message of what ended a query, and not its type.
 */
public final class StageRepeatedException extends IOException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes the exception.
   *
   * @param batch the batch
   * @param operator the stateful operator
   * @param partition the partition of it that has several states
   */
  public StageRepeatedException(long batch, String operator, int partition) {
    super("[STAGE_REPEATED] Batch " + batch + " is not committed: an executor was lost, and Spark ran " + operator + " again for partition "
        + partition + ". Its state would be of one attempt and the rows behind it of another. The batch runs again.");
  }
}
