package statefulspark.bench;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Counts the rows of each key. The state of a key is its count and a payload, in bytes. */
final class Counting extends KeyedProcessFunction<Long, Long, Tuple2<Long, Long>> {
    private static final long serialVersionUID = 1L;

    private final int valueBytes;
    private final boolean compressible;
    private transient ValueState<byte[]> state;
    private transient Progress.Subtask progress;
    private transient Tuple2<Long, Long> emitted;

    Counting(int valueBytes, boolean compressible) {
        this.valueBytes = valueBytes;
        this.compressible = compressible;
    }

    @Override
    public void open(OpenContext context) {
        state = getRuntimeContext()
                .getState(new ValueStateDescriptor<>(
                        "count", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
        progress = Progress.register();
        emitted = new Tuple2<>();
    }

    @Override
    public void processElement(Long key, Context context, Collector<Tuple2<Long, Long>> out) throws Exception {
        byte[] value = state.value();
        if (value == null) {
            value = Workload.value(key, valueBytes, compressible);
        }
        ByteBuffer buffer = ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN);
        long count = buffer.getLong(0) + 1;
        buffer.putLong(0, count);
        state.update(value);
        progress.add(key, count);
        emitted.setFields(key, count);
        out.collect(emitted);
    }

    @Override
    public void close() {
        if (progress != null) {
            progress.end();
        }
    }
}
