package io.statefulspark.internals;

import java.lang.reflect.Field;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.python.PythonWorkerFactory;
import scala.collection.mutable.HashMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What Python asks of {@code SparkEnv}.
 *
 * <p>In 4.3 one of its methods names a class that needs protobuf, which PySpark does not bring (SPARK-55278). Java links a
 * method when it is called; Py4J looks at all of them first, and ends with a {@code NoClassDefFoundError}.
 */
public final class Environment {
  private Environment() {}

  /** Returns the address of this process among those of the executors. */
  public static String address() {
    return SparkEnv.get().blockManager().blockManagerId().hostPort();
  }

  /** Ends every Python process of Spark's. */
  public static void stopPythonWorkers() throws ReflectiveOperationException {
    Field workers = SparkEnv.class.getDeclaredField("pythonWorkers");
    workers.setAccessible(true);
    for (Object factory : CollectionConverters.asJava(((HashMap<?, ?>) workers.get(SparkEnv.get())).values())) {
      ((PythonWorkerFactory) factory).stop();
    }
  }
}
