package io.statefulspark.storage;

import java.io.IOException;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkEnv;
import org.apache.spark.util.Utils;

/**
 * Where Spark may copy the tables of a snapshot to.
 *
 * <p>Spark 4.2 takes the local name of a table from the snapshot itself, and joins it to the folder of the store as it is
 * ({@code RocksDBFileManager.localFilePath}). Whoever writes the snapshot could name any new file of this machine with it. Python
 * refuses such a snapshot before a start; the file on the store may be another one by then, so this is asked at each copy.
 */
final class StateTables {
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_-]+\\.(sst|log)");
  private static final String FOLDER = "workingDir-";
  private static final String LOGS = "archive";

  private StateTables() {}

  /**
   * Refuses to write a file that is not a table in a folder of a state store.
   *
   * @param source the file on the store, for the message
   * @param target the file on this machine
   * @throws IOException if it is anything else
   */
  static void requirePlace(Path source, Path target) throws IOException {
    Path folder = target.getParent();
    if (folder != null && folder.getName().equals(LOGS)) {
      folder = folder.getParent();
    }
    boolean isTable = NAME.matcher(target.getName()).matches();
    if (!isTable || folder == null || !folder.getName().startsWith(FOLDER) || !isBelowSparksFolders(folder)) {
      throw new IOException(
          "The snapshot of " + source + " names the file " + target + ", which is not in a folder of Spark's state; it was not "
              + "written. Spark writes no such name, so the snapshot was changed later.");
    }
  }

  private static boolean isBelowSparksFolders(Path folder) {
    java.nio.file.Path path = java.nio.file.Path.of(folder.toUri().getPath()).normalize();
    for (String root : Utils.getConfiguredLocalDirs(SparkEnv.get().conf())) {
      if (path.startsWith(java.nio.file.Path.of(root).toAbsolutePath().normalize())) {
        return true;
      }
    }
    return false;
  }
}
