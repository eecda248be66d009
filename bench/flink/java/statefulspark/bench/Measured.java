package statefulspark.bench;

import java.util.Locale;

/** What was measured, as JSON. */
final class Measured {
    private Measured() {}

    /** Returns the rates and the result of a count that has ended. */
    static String of(Progress progress) {
        return json(
                "{\"rows\": %d, \"keys\": %d, \"checksum\": %d, \"warm_s\": %.4f, \"updates_s\": %.4f}",
                progress.rows(),
                progress.newKeys(),
                progress.checksum(),
                seconds(progress.firstRecordNanos, progress.filledNanos),
                seconds(progress.filledNanos, progress.lastNanos()));
    }

    static double seconds(long from, long to) {
        return (to - from) / 1e9;
    }

    static String json(String format, Object... values) {
        return String.format(Locale.ROOT, format, values);
    }
}
