import io.statefulspark.checkpoint.ConditionalCheckpointFileManager;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Writers race for one log entry per round, each with a manager of its own as a driver has. Prints one line per round:
 * the number of winners, whether the file holds the winner's bytes, and the losers' exception types.
 *
 * <p>Arguments: location, writers, rounds, then Hadoop settings as key=value.
 */
public class RaceTest {
  public static void main(String[] args) throws Exception {
    Path log = new Path(args[0], "offsets");
    int writers = Integer.parseInt(args[1]);
    int rounds = Integer.parseInt(args[2]);
    Configuration configuration = new Configuration();
    for (int i = 3; i < args.length; i++) {
      int at = args[i].indexOf('=');
      configuration.set(args[i].substring(0, at), args[i].substring(at + 1));
    }
    List<CheckpointFileManager> managers = new ArrayList<>();
    for (int i = 0; i < writers; i++) {
      managers.add(new ConditionalCheckpointFileManager(log, configuration));
    }
    managers.get(0).mkdirs(log);
    ExecutorService threads = Executors.newFixedThreadPool(writers);
    for (int round = 0; round < rounds; round++) {
      System.out.println("ROUND " + race(managers, new Path(log, "" + round), threads));
    }
    threads.shutdown();
  }

  private static String race(List<CheckpointFileManager> managers, Path path, ExecutorService threads) throws Exception {
    CyclicBarrier start = new CyclicBarrier(managers.size());
    List<Future<String>> outcomes = new ArrayList<>();
    for (int i = 0; i < managers.size(); i++) {
      CheckpointFileManager manager = managers.get(i);
      String body = "writer " + i;
      outcomes.add(threads.submit(() -> write(manager, path, body, start)));
    }
    List<String> winners = new ArrayList<>();
    List<String> losers = new ArrayList<>();
    for (Future<String> outcome : outcomes) {
      String said = outcome.get();
      (said.startsWith("writer") ? winners : losers).add(said);
    }
    String stored;
    try (FSDataInputStream in = managers.get(0).open(path)) {
      stored = new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
    return winners.size() + " " + winners.contains(stored) + " " + losers.stream().distinct().sorted().toList();
  }

  private static String write(CheckpointFileManager manager, Path path, String body, CyclicBarrier start)
      throws Exception {
    if (manager.exists(path)) {
      return "exists before the race";
    }
    start.await(30, TimeUnit.SECONDS);
    CheckpointFileManager.CancellableFSDataOutputStream out = null;
    try {
      out = manager.createAtomic(path, false);
      out.write(body.getBytes(StandardCharsets.UTF_8));
      out.close();
      return body;
    } catch (Throwable e) {
      if (out != null) {
        out.cancel();
      }
      return e.getClass().getSimpleName();
    }
  }
}
