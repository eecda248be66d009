package io.statefulspark.output;

import java.lang.reflect.Field;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.classic.DataStreamWriter;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2;
import org.apache.spark.sql.internal.SQLConf;
import scala.Function2;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/** Puts the numbers of batches into a writer that the user has made and not started. */
public final class BatchNumbers {
  private BatchNumbers() {}

  /**
   * Lets the sink of a writer be told other numbers than Spark's: a function of {@code foreachBatch} those with an offset
   * added, and a sink of files the next ones of its own log. May be called again, before each start.
   *
   * @param writer the writer
   * @param offset what is added to a batch's number for a function
   */
  public static void install(DataStreamWriter<?> writer, long offset) throws ReflectiveOperationException {
    Field function = field("foreachBatchWriter");
    Object given = function.get(writer);
    if (given != null) {
      Function2<Dataset<?>, Object, BoxedUnit> plain = given instanceof Numbered numbered ? numbered.plain : cast(given);
      function.set(writer, new Numbered(plain, offset));
      return;
    }
    Field source = field("source");
    String format = (String) source.get(writer);
    if (writesFiles(format)) {
      writer.option(NumberedFiles.FORMAT, format);
      source.set(writer, NumberedFiles.class.getName());
    }
  }

  private static boolean writesFiles(String format) {
    if (format.equals(NumberedFiles.class.getName()) || format.equals("foreach")) {
      return false;
    }
    Class<?> provider = DataSource.lookupDataSource(format, SQLConf.get());
    return FileFormat.class.isAssignableFrom(provider) || FileDataSourceV2.class.isAssignableFrom(provider);
  }

  private static Field field(String name) throws ReflectiveOperationException {
    Field field = DataStreamWriter.class.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  @SuppressWarnings("unchecked")
  private static Function2<Dataset<?>, Object, BoxedUnit> cast(Object function) {
    return (Function2<Dataset<?>, Object, BoxedUnit>) function;
  }

  private static final class Numbered extends AbstractFunction2<Dataset<?>, Object, BoxedUnit> {
    private final Function2<Dataset<?>, Object, BoxedUnit> plain;
    private final long offset;

    Numbered(Function2<Dataset<?>, Object, BoxedUnit> plain, long offset) {
      this.plain = plain;
      this.offset = offset;
    }

    @Override
    public BoxedUnit apply(Dataset<?> rows, Object batch) {
      return plain.apply(rows, (Long) batch + offset);
    }
  }
}
