package statefulspark.bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.flink.configuration.Configuration;

/**
 * Flink under measurement: arguments are the parallelism and settings ({@code key=value}), commands come on standard input.
 *
 * <pre>
 * count KEYS WARM_ROWS ROWS VALUE_BYTES   count so many rows, then as many as are measured; ends by itself
 * start KEYS VALUE_BYTES           fill the state with every key; rows trickle from then on
 * restore KEYS VALUE_BYTES PATH    go on from a savepoint, or with "-" from nothing
 * savepoint FOLDER                 take a savepoint while the job runs
 * quiet SECONDS                    only look
 * stop FOLDER                      end the job with a savepoint
 * cancel                           end the job without one
 * </pre>
 *
 * <p>Each is answered by one line of JSON on standard output. The end of the input ends the process.
 */
public final class Main {
    private static final long TRICKLING_ROWS = 1L << 40;

    private final Cluster cluster;
    private Progress progress;

    private Main(Cluster cluster) {
        this.cluster = cluster;
    }

    public static void main(String[] arguments) throws Exception {
        // Flink logs to standard output too; answers keep it to themselves.
        PrintStream answers = System.out;
        System.setOut(System.err);
        Configuration configuration = new Configuration();
        for (int index = 1; index < arguments.length; index++) {
            String[] setting = arguments[index].split("=", 2);
            configuration.setString(setting[0], setting[1]);
        }
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Cluster cluster = new Cluster(configuration, Integer.parseInt(arguments[0]))) {
            answers.println("{\"ready\": true}");
            Main main = new Main(cluster);
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                answers.println(main.answer(line.trim().split(" ")));
            }
        }
        System.exit(0);
    }

    private String answer(String[] command) throws Exception {
        switch (command[0]) {
            case "count":
                return count(command);
            case "start":
                return start(number(command[1]), (int) number(command[2]));
            case "restore":
                return restore(number(command[1]), (int) number(command[2]), command[3]);
            case "savepoint":
                return savepoint(command[1]);
            case "quiet":
                return quiet(number(command[1]));
            case "stop":
                return stop(command[1]);
            case "cancel":
                cluster.cancel();
                return "{}";
            default:
                throw new IllegalArgumentException("Unknown command " + command[0]);
        }
    }

    private String count(String[] command) throws Exception {
        long keys = number(command[1]);
        long warmRows = number(command[2]);
        long rows = number(command[3]);
        progress = Progress.begin(warmRows);
        cluster.submit(
                keys, warmRows + rows, (int) number(command[4]), command[5].equals("compressible"), false, null);
        cluster.await();
        return Measured.of(progress);
    }

    private String start(long keys, int valueBytes) throws Exception {
        progress = Progress.begin(keys);
        cluster.submit(keys, TRICKLING_ROWS, valueBytes, false, true, null);
        await(progress.filled);
        return Measured.json("{\"fill_s\": %.4f}", Measured.seconds(progress.firstRecordNanos, progress.filledNanos));
    }

    private String restore(long keys, int valueBytes, String path) throws Exception {
        progress = Progress.begin(0);
        progress.filled.countDown();
        long began = System.nanoTime();
        cluster.submit(keys, TRICKLING_ROWS, valueBytes, false, true, path.equals("-") ? null : path);
        await(progress.firstRecord);
        Thread.sleep(500);
        return Measured.json(
                "{\"first_record_s\": %.4f, \"rows\": %d, \"new_keys\": %d}",
                Measured.seconds(began, progress.firstRecordNanos), progress.rows(), progress.newKeys());
    }

    private String savepoint(String folder) throws Exception {
        progress.forgetGaps();
        long began = System.nanoTime();
        String path = cluster.savepoint(folder);
        long ended = System.nanoTime();
        return Measured.json(
                "{\"took_s\": %.4f, \"gap_s\": %.4f, \"path\": \"%s\"}",
                Measured.seconds(began, ended), progress.longestGapSeconds(), path);
    }

    private String quiet(long lengthSeconds) throws Exception {
        progress.forgetGaps();
        Thread.sleep(lengthSeconds * 1000);
        return Measured.json("{\"gap_s\": %.4f}", progress.longestGapSeconds());
    }

    private String stop(String folder) throws Exception {
        long began = System.nanoTime();
        String path = cluster.stop(folder);
        long ended = System.nanoTime();
        return Measured.json(
                "{\"took_s\": %.4f, \"pause_s\": %.4f, \"path\": \"%s\"}",
                Measured.seconds(began, ended), Measured.seconds(progress.lastNanos(), ended), path);
    }

    private void await(CountDownLatch latch) throws Exception {
        while (!latch.await(1, TimeUnit.SECONDS)) {
            if (cluster.failed()) {
                cluster.await();
            }
        }
    }

    private static long number(String text) {
        return Long.parseLong(text);
    }
}
