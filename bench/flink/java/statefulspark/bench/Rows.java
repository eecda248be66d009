package statefulspark.bench;

import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.functions.MapFunction;

/**
 * Turns numbers of Flink's sequence source into keys.
 *
 * <p>The source gives each subtask a range of its own; they are dealt out here instead, so that rows come about in order.
 */
public final class Rows implements MapFunction<Long, Long> {
    private static final long serialVersionUID = 1L;
    private static final long PAUSE_NANOS = 1_000_000;

    private final long keys;
    private final long perSubtask;
    private final int subtasks;
    private final boolean trickles;

    /**
     * Deals out rows.
     *
     * @param keys how many keys there are
     * @param rows the length of the sequence, a multiple of the number of subtasks
     * @param subtasks how many read it
     * @param trickles whether the first rows name every key once, and those after them come one by one, with a pause
     */
    public Rows(long keys, long rows, int subtasks, boolean trickles) {
        this.keys = keys;
        this.perSubtask = rows / subtasks;
        this.subtasks = subtasks;
        this.trickles = trickles;
    }

    @Override
    public Long map(Long number) {
        long row = number % perSubtask * subtasks + number / perSubtask;
        if (trickles && row < keys) {
            return row;
        }
        if (trickles) {
            LockSupport.parkNanos(PAUSE_NANOS);
        }
        return Workload.key(row, keys);
    }
}
