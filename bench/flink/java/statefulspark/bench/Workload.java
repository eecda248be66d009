package statefulspark.bench;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/** The rows of the benchmark, their states and their check, as {@code bench/workload.py} defines them. */
final class Workload {
    private Workload() {}

    /** Returns the key of a row. */
    static long key(long row, long keys) {
        return Long.remainderUnsigned(mix(row), keys);
    }

    /** The finalizer of SplitMix64. */
    static long mix(long number) {
        long z = number + 0x9E3779B97F4A7C15L * (number + 1);
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }

    /** Returns what a key and its count add to the check of what came out. */
    static long checksum(long key, long count) {
        long folded = (key * 31 + count) % 1_000_003;
        return folded * folded;
    }

    /** Returns the state of a key that has not been counted: zeros, or bytes that do not compress behind the count. */
    static byte[] value(long key, int size, boolean compressible) {
        ByteBuffer made = ByteBuffer.allocate((size + 7) / 8 * 8).order(ByteOrder.LITTLE_ENDIAN);
        for (int at = 8; at < size && !compressible; at += 8) {
            made.putLong(at, mix(key * 1024 + at));
        }
        return Arrays.copyOf(made.array(), size);
    }
}
