package io.statefulspark.checkpoint;

import java.io.IOException;
import java.util.List;

/**
 * A batch was not committed, because input files that it was planned with are gone, and the job wants to stop then.
 *
 * <p>The driver knows it by the class in brackets: Spark tells the message of what ended a query, and not its type.
 */
public final class InputFilesGoneException extends IOException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes the exception.
   *
   * @param batch the batch
   * @param files the files
   */
  public InputFilesGoneException(long batch, List<String> files) {
    super("[INPUT_FILES_GONE] Batch " + batch + " is not committed: " + files.size()
        + " of its input files were listed and then gone before they were read, the first is " + files.get(0) + ".");
  }
}
