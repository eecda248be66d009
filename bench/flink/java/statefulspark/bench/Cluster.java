package statefulspark.bench;

import java.util.concurrent.ExecutionException;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.RecoveryClaimMode;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.minicluster.RpcServiceSharing;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** A cluster of one task manager in this JVM, on loopback, and at most one job. */
final class Cluster implements AutoCloseable {
    private final Configuration configuration;
    private final int parallelism;
    private final MiniCluster cluster;
    private JobID job;

    Cluster(Configuration configuration, int parallelism) throws Exception {
        this.configuration = configuration;
        this.parallelism = parallelism;
        cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(parallelism)
                .setRpcServiceSharing(RpcServiceSharing.SHARED)
                .setCommonBindAddress("127.0.0.1")
                .withRandomPorts()
                .build());
        cluster.start();
    }

    /** Starts the count over so many rows, from nothing or from a savepoint. */
    void submit(
            long keys, long rows, int valueBytes, boolean compressible, boolean trickles, String savepoint)
            throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment.setParallelism(parallelism);
        environment.getConfig().enableObjectReuse();
        environment
                .fromSequence(0, rows - 1)
                .uid("sequence")
                .map(new Rows(keys, rows, parallelism, trickles))
                .returns(Types.LONG)
                .uid("rows")
                .keyBy(key -> key, Types.LONG)
                .process(new Counting(valueBytes, compressible))
                .returns(Types.TUPLE(Types.LONG, Types.LONG))
                .uid("count")
                .sinkTo(new DiscardingSink<>())
                .uid("out");
        JobGraph graph = environment.getStreamGraph().getJobGraph();
        if (savepoint != null) {
            graph.setSavepointRestoreSettings(
                    SavepointRestoreSettings.forPath(savepoint, false, RecoveryClaimMode.NO_CLAIM));
        }
        job = cluster.submitJob(graph).get().getJobID();
    }

    /** Waits until the job has processed all its rows. */
    void await() throws Exception {
        cluster.requestJobResult(job).get().toJobExecutionResult(getClass().getClassLoader());
    }

    /** Takes a savepoint of the running job in Flink's native format, and returns where it is. */
    String savepoint(String folder) throws ExecutionException, InterruptedException {
        return cluster.triggerSavepoint(job, folder, false, SavepointFormatType.NATIVE).get();
    }

    /** Ends the job with such a savepoint. */
    String stop(String folder) throws ExecutionException, InterruptedException {
        return cluster.stopWithSavepoint(job, folder, false, SavepointFormatType.NATIVE).get();
    }

    /** Ends the job without one. */
    void cancel() throws ExecutionException, InterruptedException {
        cluster.cancelJob(job).get();
        while (!cluster.getJobStatus(job).get().isGloballyTerminalState()) {
            Thread.sleep(10);
        }
    }

    boolean failed() throws ExecutionException, InterruptedException {
        return cluster.getJobStatus(job).get() == JobStatus.FAILED;
    }

    @Override
    public void close() throws ExecutionException {
        try {
            cluster.closeAsync().get();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
