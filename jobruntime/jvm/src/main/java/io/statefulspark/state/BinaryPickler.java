package io.statefulspark.state;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import net.razorvine.pickle.IObjectPickler;
import net.razorvine.pickle.Pickler;
import org.apache.spark.sql.execution.python.EvaluatePython;

/**
 * Hands binary values to Python as the bytes that they are.
 *
 * <p>Spark's state server pickles what it returns, and its pickler writes binary as the call {@code
 * bytes(bytearray("…", "latin-1"))}: half of random bytes become two, one character after the other, and Python takes them
 * back. That is 13 ms of a core for each MB, three quarters of what a chunk of keyed state costs on its way to a worker. This
 * pickler, for the same class of Spark, writes Python's own operation for bytes, {@code BINBYTES}, which every Python 3
 * reads. What arrives is equal.
 *
 * <p>With {@code spark.sql.execution.pyspark.binaryAsBytes} off, values arrive as {@code bytearray}, in Spark's way.
 */
public final class BinaryPickler implements IObjectPickler {
  private static final byte BINBYTES = 'B';

  private BinaryPickler() {}

  /** Takes the place of Spark's pickler for binary in this JVM; idempotent. */
  public static void register() {
    // Spark registers its own once, when a row is first pickled: that has to have happened before.
    EvaluatePython.registerPicklers();
    Pickler.registerCustomPickler(EvaluatePython.BytesWrapper.class, new BinaryPickler());
  }

  @Override
  public void pickle(Object value, OutputStream out, Pickler pickler) throws IOException {
    byte[] bytes = ((EvaluatePython.BytesWrapper) value).data();
    ByteBuffer head = ByteBuffer.allocate(1 + Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    out.write(head.put(BINBYTES).putInt(bytes.length).array());
    out.write(bytes);
  }
}
