package statefulspark.bench;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** What is around a count in PyFlink, in the JVM that PyFlink starts: the rows, and a look at what comes out. */
public final class Pyflink {
    private static Progress progress;

    private Pyflink() {}

    /** Returns the stream of keys of so many rows, and those that are measured. */
    public static DataStream<Long> source(
            StreamExecutionEnvironment environment, long keys, long warmRows, long rows, int subtasks) {
        progress = Progress.begin(warmRows);
        return environment
                .fromSequence(0, warmRows + rows - 1)
                .map(new Rows(keys, warmRows + rows, subtasks, false))
                .returns(Types.LONG);
    }

    /** Looks at a stream of keys and counts. */
    public static void watch(DataStream<Tuple2<Long, Long>> counts) {
        counts.map(new Watch()).returns(Types.LONG).sinkTo(new DiscardingSink<>());
    }

    /** Returns what was seen, as JSON. */
    public static String measured() {
        return Measured.of(progress);
    }

    /** Writes down what passes. */
    static final class Watch extends RichMapFunction<Tuple2<Long, Long>, Long> {
        private static final long serialVersionUID = 1L;

        private transient Progress.Subtask subtask;

        @Override
        public void open(OpenContext context) {
            subtask = Progress.register();
        }

        @Override
        public Long map(Tuple2<Long, Long> counted) {
            subtask.add(counted.f0, counted.f1);
            return counted.f1;
        }

        @Override
        public void close() {
            subtask.end();
        }
    }
}
