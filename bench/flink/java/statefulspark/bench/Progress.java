package statefulspark.bench;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/** What the subtasks of the running job have done so far. They share this JVM, so they write it down here. */
final class Progress {
    /** How many records a subtask processes between two looks at the clock, while it is measured how many it can. */
    static final int STRIDE = 64;

    private static volatile Progress current = new Progress(0);

    final CountDownLatch filled = new CountDownLatch(1);
    final CountDownLatch firstRecord = new CountDownLatch(1);
    volatile long firstRecordNanos;
    volatile long filledNanos;
    private final long fillRows;
    private final AtomicLong rows = new AtomicLong();
    private final List<Subtask> subtasks = new CopyOnWriteArrayList<>();

    private Progress(long fillRows) {
        this.fillRows = fillRows;
    }

    /** Begins anew for a job whose first rows fill its state. */
    static Progress begin(long fillRows) {
        current = new Progress(fillRows);
        return current;
    }

    /** Registers a subtask of the running job. */
    static Subtask register() {
        Progress progress = current;
        Subtask subtask = progress.new Subtask();
        progress.subtasks.add(subtask);
        return subtask;
    }

    long rows() {
        return subtasks.stream().mapToLong(subtask -> subtask.rows).sum();
    }

    long newKeys() {
        return subtasks.stream().mapToLong(subtask -> subtask.newKeys).sum();
    }

    long checksum() {
        return subtasks.stream().mapToLong(subtask -> subtask.checksum).sum();
    }

    long lastNanos() {
        return subtasks.stream().mapToLong(subtask -> subtask.lastNanos).max().orElseThrow();
    }

    /** Forgets the gaps seen so far. */
    void forgetGaps() {
        subtasks.forEach(subtask -> subtask.longestGapNanos = 0);
    }

    /** Returns the longest time in which a subtask has processed nothing. */
    double longestGapSeconds() {
        long now = System.nanoTime();
        return subtasks.stream()
                .mapToLong(subtask -> Math.max(subtask.longestGapNanos, now - subtask.lastNanos))
                .max()
                .orElseThrow() / 1e9;
    }

    private void count(long more) {
        if (rows.addAndGet(more) >= fillRows && filled.getCount() > 0) {
            filledNanos = System.nanoTime();
            filled.countDown();
        }
    }

    /** One subtask; written by its own thread. */
    final class Subtask {
        private long rows;
        private long newKeys;
        private long checksum;
        private volatile long lastNanos = System.nanoTime();
        private volatile long longestGapNanos;

        /** Counts a record: a key, and how often it has been seen now. */
        void add(long key, long count) {
            if (rows++ == 0) {
                first();
            }
            if (count == 1) {
                newKeys++;
            } else {
                checksum -= Workload.checksum(key, count - 1);
            }
            checksum += Workload.checksum(key, count);
            if (rows % STRIDE == 0) {
                count(STRIDE);
            }
            if (filled.getCount() == 0) {
                look();
            }
        }

        /** Says that no record follows. */
        void end() {
            count(rows % STRIDE);
            lastNanos = System.nanoTime();
        }

        private void first() {
            if (firstRecord.getCount() > 0) {
                firstRecordNanos = System.nanoTime();
                firstRecord.countDown();
            }
        }

        private void look() {
            long now = System.nanoTime();
            longestGapNanos = Math.max(longestGapNanos, now - lastNanos);
            lastNanos = now;
        }
    }
}
