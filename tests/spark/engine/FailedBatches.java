import io.statefulspark.checkpoint.ConditionalCheckpointFileManager;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * Batches on two executors, of which most fail at a random step, against a map. Spark reuses SST files that an executor has
 * uploaded, by name and size; a wrong one of equal size would only be seen where the state is read from storage, so each
 * version that has a snapshot, and some others, are read on an executor that has nothing.
 *
 * <p>Arguments: folder, seed, how many batches fail, and of how many attempts one succeeds. Prints, also now and then, the
 * number of committed versions, failed batches, snapshots, twins (tables of one name and size with other content), and
 * versions that were read and that were wrong. Ends with exit code 1 at the first version that is wrong.
 */
public class FailedBatches {
  private static final int KEYS = 100;
  private static final int CHANGES = 10;
  private static final int VALUE_BYTES = 64;
  private static final long TOLD_EVERY = 1000;
  private static final StructType KEY = new StructType().add("key", DataTypes.LongType);
  private static final StructType VALUE = new StructType().add("value", DataTypes.BinaryType);
  private static final UnsafeProjection TO_KEY = UnsafeProjection.create(KEY);
  private static final UnsafeProjection TO_VALUE = UnsafeProjection.create(VALUE);

  private final Path folder;
  private final Random random;
  private final List<Executor> executors = new ArrayList<>();
  private final Map<Long, byte[]> model = new HashMap<>();
  private Option<String> id = Option.empty();
  private final int attempts;
  private final long most;
  private long version;
  private long failed;
  private long verified;
  private long wrong;

  private FailedBatches(Path folder, long seed, int attempts, long most) {
    this.folder = folder;
    this.random = new Random(seed);
    this.attempts = attempts;
    this.most = most;
    executors.add(new Executor());
    executors.add(new Executor());
  }

  /** What an executor has of one partition. */
  private final class Executor {
    private final RocksDBStateStoreProvider provider = new RocksDBStateStoreProvider();

    Executor() {
      SQLConf conf = new SQLConf();
      conf.setConfString("spark.sql.streaming.stateStore.checkpointFormatVersion", "2");
      conf.setConfString("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true");
      conf.setConfString("spark.sql.streaming.stateStore.minDeltasForSnapshot", "2");
      conf.setConfString("spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows", "false");
      conf.setConfString("spark.sql.streaming.minBatchesToRetain", "1000000000");
      conf.setConfString("spark.sql.streaming.checkpoint.fileChecksum.enabled", "false");
      Configuration hadoop = new Configuration();
      hadoop.set("spark.sql.streaming.checkpointFileManagerClass", ConditionalCheckpointFileManager.class.getName());
      hadoop.setClassLoader(FailedBatches.class.getClassLoader());
      hadoop.set("fs.file.impl", LocalFiles.class.getName());
      hadoop.set("sql.streaming.runId", UUID.randomUUID().toString());
      provider.init(new StateStoreId(folder.toUri().toString(), 0, 0, "default"), KEY, VALUE,
          new NoPrefixKeyStateEncoderSpec(KEY), false, StateStoreConf.apply(conf), hadoop, false, Option.empty());
    }
  }

  /** Local files, without checksum files and without Hadoop's own process for each permission that it sets. */
  public static final class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
      super(new RawLocalFileSystem() {
        @Override
        public void setPermission(org.apache.hadoop.fs.Path path, FsPermission permission) {
          // As this process makes them.
        }
      });
      setWriteChecksum(false);
      setVerifyChecksum(false);
    }
  }

  public static void main(String[] args) throws Exception {
    long failed = Long.parseLong(args[2]);
    FailedBatches run = new FailedBatches(Path.of(args[0]), Long.parseLong(args[1]), Integer.parseInt(args[3]), failed);
    long told = TOLD_EVERY;
    while (run.failed < failed && run.wrong == 0) {
      run.batch();
      if (run.failed >= told) {
        run.tell();
        told += TOLD_EVERY;
      }
    }
    run.tell();
    System.exit(run.wrong == 0 ? 0 : 1);
  }

  private void tell() throws IOException {
    System.out.println("committed " + version + " failed " + failed + " snapshots " + snapshots()
        + " twins " + twins() + " verified " + verified + " wrong " + wrong);
  }

  /** Returns how many tables have the name and size of another one and other content. */
  private long twins() throws IOException {
    Map<String, byte[]> known = new HashMap<>();
    long twins = 0;
    File[] tables = folder.resolve("0/0/SSTs").toFile().listFiles();
    for (File table : tables == null ? new File[0] : tables) {
      byte[] content = Files.readAllBytes(table.toPath());
      String name = table.getName().substring(0, table.getName().indexOf('-'));
      byte[] other = known.putIfAbsent(name + " " + content.length, content);
      twins += other != null && !Arrays.equals(other, content) ? 1 : 0;
    }
    return twins;
  }

  /** Runs a batch until it is committed; forgets what an attempt that failed has left. */
  private void batch() {
    Map<Long, byte[]> changes = null;
    while (changes == null) {
      if (failed == most) {
        return;
      }
      changes = attempt(executors.get(random.nextInt(4) == 0 ? 1 : 0));
    }
    model.putAll(changes);
    version++;
    if (hasSnapshot() || random.nextInt(8) == 0) {
      verify();
    }
    if (random.nextInt(50) == 0) {
      int lost = random.nextInt(2);
      executors.get(lost).provider.close();
      executors.set(lost, new Executor());
    }
  }

  private Map<Long, byte[]> attempt(Executor executor) {
    StateStore store = executor.provider.getStore(version, id, false, false);
    // All attempts change the same keys, to other values of the same size, so that their files are of equal size.
    Map<Long, byte[]> changes = new HashMap<>();
    Random keys = new Random(version);
    while (changes.size() < CHANGES) {
      byte[] value = new byte[VALUE_BYTES];
      random.nextBytes(value);
      changes.put((long) keys.nextInt(KEYS), value);
    }
    int written = 0;
    boolean failsBefore = random.nextInt(4) == 0;
    for (Map.Entry<Long, byte[]> change : changes.entrySet()) {
      if (failsBefore && ++written > CHANGES / 2) {
        break;
      }
      store.put(key(change.getKey()), TO_VALUE.apply(new GenericInternalRow(new Object[] {change.getValue()})).copy(), "default");
    }
    if (failsBefore) {
      store.abort();
      failed++;
      maintain(executor);
      return null;
    }
    store.commit();
    maintain(executor);
    if (random.nextInt(attempts) > 0) {
      failed++;
      return null;
    }
    id = store.getStateStoreCheckpointInfo().stateStoreCkptId();
    return changes;
  }

  private void maintain(Executor executor) {
    if (random.nextInt(3) != 0) {
      executor.provider.doMaintenance();
    }
  }

  private void verify() {
    verified++;
    if (!isRight(new Executor())) {
      wrong++;
      System.out.println("WRONG version " + version + " id " + id);
    }
  }

  private boolean isRight(Executor empty) {
    StateStore store = empty.provider.getStore(version, id, false, false);
    Map<Long, byte[]> found = new HashMap<>();
    scala.collection.Iterator<UnsafeRowPair> rows = store.iterator("default");
    while (rows.hasNext()) {
      UnsafeRowPair pair = rows.next();
      found.put(pair.key().getLong(0), pair.value().getBinary(0));
    }
    store.abort();
    empty.provider.close();
    return found.keySet().equals(model.keySet())
        && found.entrySet().stream().allMatch(entry -> Arrays.equals(entry.getValue(), model.get(entry.getKey())));
  }

  private static UnsafeRow key(long key) {
    return TO_KEY.apply(new GenericInternalRow(new Object[] {key})).copy();
  }

  private boolean hasSnapshot() {
    return Files.exists(folder.resolve("0/0/" + version + "_" + id.get() + ".zip"));
  }

  private long snapshots() {
    File[] files = folder.resolve("0/0").toFile().listFiles((at, name) -> name.endsWith(".zip"));
    return files == null ? 0 : files.length;
  }
}
