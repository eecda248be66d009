package io.statefulspark.internals;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.state.StateSchemaCompatibilityChecker;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.List;
import scala.collection.immutable.Map;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Calls of Spark that its releases take in different forms: one method for each, named by Spark's ticket.
 *
 * <p>A newer release takes more arguments at the end. So a call has the arguments of the newest one, and passes as many as
 * the method of this release has.
 */
public final class Differences {
  private static final String BESIDE_PARTITIONS = "statefulspark.rows";

  private Differences() {}

  /**
   * Makes Spark's sink of a format.
   *
   * <p>4.2: a source has a name (SPARK-55601). 4.3: the schema is given, and the columns of partitions must be in it; it is
   * not known here, and a column that is absent fails the first batch, as in older releases.
   *
   * @param format the format; one that is no format of files makes another sink
   */
  public static Sink sink(
      SparkSession session, String format, Seq<String> partitions, Map<String, String> options, OutputMode mode) {
    Object source =
        call(
            method(DataSource.class, "apply"),
            null,
            session,
            format,
            Nil$.MODULE$,
            Option.empty(),
            partitions,
            Option.empty(),
            options,
            Option.empty(),
            Option.empty());
    StructType schema = new StructType().add(BESIDE_PARTITIONS, DataTypes.LongType);
    for (String partition : CollectionConverters.asJava(partitions)) {
      schema = schema.add(partition, DataTypes.StringType);
    }
    return (Sink) call(method(DataSource.class, "createSink"), source, mode, schema);
  }

  /**
   * Returns the reader of a store's schemas, which creates no folder.
   *
   * <p>4.2: whether the folder is created (SPARK-55493).
   */
  public static StateSchemaCompatibilityChecker schemas(
      StateStoreProviderId store, Configuration configuration, List<Path> paths) {
    Constructor<?> constructor = StateSchemaCompatibilityChecker.class.getConstructors()[0];
    Object[] given = {store, configuration, paths, Option.empty(), false};
    try {
      return (StateSchemaCompatibilityChecker)
          constructor.newInstance(Arrays.copyOf(given, constructor.getParameterCount()));
    } catch (ReflectiveOperationException e) {
      throw failure(e);
    }
  }

  private static Method method(Class<?> owner, String name) {
    return Stream.of(owner.getMethods())
        .filter(method -> method.getName().equals(name) && !method.isSynthetic())
        .findFirst()
        .orElseThrow(() -> new IllegalStateException("This release of Spark has no " + owner.getName() + "." + name));
  }

  private static Object call(Method method, Object target, Object... given) {
    try {
      return method.invoke(target, Arrays.copyOf(given, method.getParameterCount()));
    } catch (ReflectiveOperationException e) {
      throw failure(e);
    }
  }

  /** Returns what Spark has thrown, or that this release has another form of the call. */
  private static RuntimeException failure(ReflectiveOperationException error) {
    if (error instanceof InvocationTargetException) {
      return Differences.<RuntimeException>unchecked(error.getCause());
    }
    return new IllegalStateException("This release of Spark takes this call in another form.", error);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
