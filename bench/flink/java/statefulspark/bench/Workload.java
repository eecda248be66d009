package statefulspark.bench;

/** The rows of the benchmark, as {@code bench/workload.py} defines them: row number to key, and what is kept for a key. */
final class Workload {
    private Workload() {}

    /** Returns the key of a row: every key once, in order, then keys drawn by hash. */
    static long key(long row, long keys) {
        return row < keys ? row : Math.floorMod(hash(row), keys);
    }

    /** Spark's {@code hash} of a bigint: Murmur3, 32 bits, seed 42. */
    static int hash(long number) {
        int mixed = mixed(mixed(42, (int) number), (int) (number >>> 32)) ^ 8;
        mixed = (mixed ^ (mixed >>> 16)) * 0x85ebca6b;
        mixed = (mixed ^ (mixed >>> 13)) * 0xc2b2ae35;
        return mixed ^ (mixed >>> 16);
    }

    private static int mixed(int hash, int word) {
        int scrambled = Integer.rotateLeft(word * 0xcc9e2d51, 15) * 0x1b873593;
        return Integer.rotateLeft(hash ^ scrambled, 13) * 5 + 0xe6546b64;
    }

    /** Returns what a key and its count add to the checksum of the state. */
    static long fingerprint(long key, long count) {
        return scrambled(key * 0x9E3779B97F4A7C15L + count);
    }

    /** Returns bytes that do not compress, other ones for each key. */
    static byte[] payload(long key, int size) {
        byte[] made = new byte[size];
        for (int at = 0; at < size; at += 8) {
            long word = scrambled(key * 0x9E3779B97F4A7C15L + at + 1);
            for (int index = at; index < Math.min(at + 8, size); index++, word >>>= 8) {
                made[index] = (byte) word;
            }
        }
        return made;
    }

    /** The finalizer of SplitMix64. */
    private static long scrambled(long word) {
        long mixed = (word ^ (word >>> 30)) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
        return mixed ^ (mixed >>> 31);
    }
}
