package io.statefulspark.checkpoint;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.internal.SQLConf;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Finds the input files that a batch was planned with and that were gone before it was read.
 *
 * <p>Spark's source of files writes into its log which files a batch has, and lists them again when the batch runs. It
 * leaves out what is gone by then, with a warning in Spark's log: the batch is committed without their rows. What it has
 * listed is in memory, so the comparison makes no request.
 *
 * <p>A job stops instead if it says {@code ignoreMissingFiles=false}, by the option of the source or in its settings. A file
 * that goes while it is read fails the batch by itself, and is found here when the batch runs again.
 */
final class InputFiles {
  private static final String OPTION = "ignoreMissingFiles";
  private static final String SETTING = "spark.sql.files.ignoreMissingFiles";

  private InputFiles() {}

  /**
   * Checks the batch that the running thread is about to commit, and records in its gate what it has not read.
   *
   * @throws InputFilesGoneException if files are gone, and the job says that it wants to stop then
   */
  static void requireAll(LogEntry entry) throws InputFilesGoneException {
    LogicalPlan plan = RunningBatch.execution().map(execution -> execution.logical()).orElse(null);
    if (plan == null) {
      return;
    }
    for (LogicalPlan leaf : CollectionConverters.asJava(plan.collectLeaves())) {
      if (leaf instanceof LogicalRelation read && read.isStreaming() && read.relation() instanceof HadoopFsRelation files) {
        List<String> gone = gone(files);
        if (!gone.isEmpty() && stops(files)) {
          throw new InputFilesGoneException(entry.batch(), gone);
        }
        QueryGate.missing(entry, gone);
      }
    }
  }

  private static List<String> gone(HadoopFsRelation files) {
    List<String> gone = new ArrayList<>();
    if (files.location() instanceof PartitioningAwareFileIndex index) {
      Set<String> listed = new HashSet<>();
      for (FileStatus file : CollectionConverters.asJava(index.allFiles())) {
        listed.add(file.getPath().toUri().getPath());
      }
      for (Path planned : CollectionConverters.asJava(index.rootPaths())) {
        if (!listed.contains(planned.toUri().getPath())) {
          gone.add(planned.toString());
        }
      }
    }
    return gone;
  }

  private static boolean stops(HadoopFsRelation files) {
    for (Map.Entry<String, String> option : CollectionConverters.asJava(files.options()).entrySet()) {
      if (option.getKey().equalsIgnoreCase(OPTION)) {
        return option.getValue().equalsIgnoreCase("false");
      }
    }
    SQLConf conf = SQLConf.get();
    return conf.contains(SETTING) && conf.getConfString(SETTING).equalsIgnoreCase("false");
  }
}
