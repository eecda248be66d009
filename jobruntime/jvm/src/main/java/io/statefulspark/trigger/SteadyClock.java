package io.statefulspark.trigger;

import java.lang.reflect.Field;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution;
import org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.execution.streaming.runtime.TriggerExecutor;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.util.Clock;

/**
 * The clock that a trigger in processing time waits by: it waits for the trigger's interval at most.
 *
 * <p>Spark's own clock waits until the machine's clock shows a time. If that is set back by an hour meanwhile, the query
 * sleeps for an hour, between two batches and without an error, and a stop or a savepoint waits with it.
 */
public final class SteadyClock implements Clock {
  /** As Spark's own clock; a longer wait is looked at ten times. */
  private static final long LOOKS_EVERY_MILLIS = 25;

  private final long intervalMillis;

  /**
   * Makes a clock.
   *
   * @param intervalMillis the interval of the trigger
   */
  public SteadyClock(long intervalMillis) {
    this.intervalMillis = intervalMillis;
  }

  /**
   * Gives a query that has just been started this clock, as soon as it has its trigger; returns at once.
   *
   * @param query the query; one without a trigger in processing time stays as it is
   */
  public static void install(StreamingQuery query) {
    if (query instanceof StreamingQueryWrapper
        && ((StreamingQueryWrapper) query).streamingQuery() instanceof MicroBatchExecution) {
      MicroBatchExecution execution = (MicroBatchExecution) ((StreamingQueryWrapper) query).streamingQuery();
      Thread waiting = new Thread(() -> installWhenTriggered(execution), "steady clock of " + execution.name());
      waiting.setDaemon(true);
      waiting.start();
    }
  }

  private static void installWhenTriggered(MicroBatchExecution execution) {
    try {
      while (execution.triggerExecutor() == null && execution.isActive()) {
        Thread.sleep(LOOKS_EVERY_MILLIS);
      }
      replaceClock(execution.triggerExecutor());
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("This release of Spark has no clock in ProcessingTimeExecutor.", error);
    }
  }

  private static void replaceClock(TriggerExecutor executor) throws ReflectiveOperationException {
    if (executor instanceof ProcessingTimeExecutor) {
      Field clock = ProcessingTimeExecutor.class.getDeclaredField("clock");
      clock.setAccessible(true);
      clock.set(executor, new SteadyClock(((ProcessingTimeExecutor) executor).processingTimeTrigger().intervalMs()));
    }
  }

  @Override
  public long getTimeMillis() {
    return System.currentTimeMillis();
  }

  @Override
  public long nanoTime() {
    return System.nanoTime();
  }

  @Override
  public long waitTillTime(long targetMillis) {
    long began = System.nanoTime();
    long now = System.currentTimeMillis();
    long left = Math.min(targetMillis - now, intervalMillis);
    while (left > 0) {
      sleep(Math.min(left, Math.max(left / 10, LOOKS_EVERY_MILLIS)));
      now = System.currentTimeMillis();
      long waited = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
      left = Math.min(targetMillis - now, intervalMillis - waited);
    }
    return now;
  }

  private static void sleep(long millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException error) {
      throw SteadyClock.<RuntimeException>unchecked(error);
    }
  }

  /** Lets the interruption of a query that is stopped through as it is: Spark looks for that class. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
