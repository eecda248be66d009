package io.statefulspark.checkpoint;

import java.io.IOException;

/** A newer driver owns the job: this driver must not write another log entry. */
public final class FencedException extends IOException {
  private static final long serialVersionUID = 1L;

  FencedException(String message) {
    super(message);
  }
}
