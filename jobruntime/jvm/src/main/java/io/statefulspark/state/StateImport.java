package io.statefulspark.state;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.streaming.state.StateRewriter;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Writes tables as the state of a query at a committed batch: new stores under new unique ids, for any number of partitions.
 *
 * <p>The root already holds Spark's small files: operator metadata and schemas, offsets and commit of the batch. The
 * caller writes the ids that {@link #run} returns to that commit.
 */
public final class StateImport {

  private static final String ORDINAL = "ordinal";

  private final SparkSession session;
  private final Map<String, Dataset<Row>> tables = new HashMap<>();
  private final int partitions;

  public StateImport(SparkSession session, int partitions) {
    this.session = session;
    this.partitions = partitions;
  }

  /**
   * Adds the state of one store.
   *
   * @param table partition_key, ordinal, then a struct {@code <key, value>} per column family; each row is written to every
   *     family that is not null in it, in the order of ordinals
   */
  public void add(long operator, String store, Dataset<Row> table) {
    tables.put(operator + "/" + store, table);
  }

  /**
   * Writes the state of every operator of the root.
   *
   * @return the unique ids in the form of the commit log: JSON, per operator, per partition, per store
   */
  public String run(String root, long batch) {
    StateRewriter rewriter =
        new StateRewriter(
            session,
            batch,
            batch,
            root,
            session.sessionState().newHadoopConf(),
            Option.apply(root),
            Option.apply(this::replace),
            Option.empty());
    Map<Long, String> ids = new TreeMap<>();
    CollectionConverters.asJava(rewriter.run().get())
        .forEach((operator, stores) -> ids.put((Long) operator, json(stores)));
    return ids.entrySet().stream()
        .map(entry -> "\"" + entry.getKey() + "\":" + entry.getValue())
        .collect(Collectors.joining(",", "{", "}"));
  }

  private static String json(String[][] partitions) {
    return Stream.of(partitions)
        .map(ids -> Stream.of(ids).collect(Collectors.joining("\",\"", "[\"", "\"]")))
        .collect(Collectors.joining(",", "[", "]"));
  }

  /** Replaces the empty state that Spark has read by the table of its store, which the relation's options name. */
  private Dataset<Row> replace(Dataset<Row> read) {
    CaseInsensitiveStringMap options =
        ((DataSourceV2Relation) ((org.apache.spark.sql.classic.Dataset<Row>) read).queryExecution().analyzed())
            .options();
    String store = options.get("operatorId") + "/" + options.get("storeName");
    Dataset<Row> table = tables.get(store);
    if (table == null) {
      throw new IllegalStateException("No state was given for operator/store " + store);
    }
    StructType written = read.schema();
    Dataset<Row> packed = pack(table, written);
    boolean hasKey = ((StructType) written.fields()[0].dataType()).length() > 0;
    Dataset<Row> spread =
        hasKey ? packed.repartition(partitions, functions.col(written.fields()[0].name())) : packed.coalesce(1);
    Dataset<Row> ordered = spread.sortWithinPartitions(ORDINAL).drop(ORDINAL);
    // Only nullability may differ here, and Spark includes it when it compares schemas.
    JavaRDD<InternalRow> rows = rows(ordered).map(InternalRow::copy);
    return session.internalCreateDataFrame(rows.rdd(), written, false);
  }

  private Dataset<Row> pack(Dataset<Row> table, StructType written) {
    StructType typed = table.schema();
    JavaRDD<InternalRow> rows = rows(table).mapPartitions(iterator -> packAll(iterator, typed));
    return session.internalCreateDataFrame(rows.rdd(), written.add(ORDINAL, DataTypes.LongType), false);
  }

  private static Iterator<InternalRow> packAll(Iterator<InternalRow> rows, StructType typed) {
    UnsafeProjection projection = UnsafeProjection.create(typed);
    StructField[] fields = typed.fields();
    Iterable<InternalRow> all = () -> rows;
    return java.util.stream.StreamSupport.stream(all.spliterator(), false)
        .flatMap(row -> packRow(projection.apply(row), fields))
        .iterator();
  }

  private static Stream<InternalRow> packRow(UnsafeRow row, StructField[] fields) {
    Object partitionKey = row.getStruct(0, ((StructType) fields[0].dataType()).length()).copy();
    Stream.Builder<InternalRow> families = Stream.builder();
    for (int i = 2; i < fields.length; i++) {
      if (!row.isNullAt(i)) {
        StructField[] pair = ((StructType) fields[i].dataType()).fields();
        UnsafeRow both = row.getStruct(i, 2);
        UTF8String family = UTF8String.fromString(fields[i].name());
        families.add(
            new GenericInternalRow(
                new Object[] {partitionKey, bytes(both, 0, pair[0]), bytes(both, 1, pair[1]), family, row.getLong(1)}));
      }
    }
    return families.build();
  }

  private static byte[] bytes(UnsafeRow both, int index, StructField field) {
    if (field.dataType() instanceof BinaryType) {
      return both.getBinary(index);
    }
    return both.getStruct(index, ((StructType) field.dataType()).length()).getBytes();
  }

  private static JavaRDD<InternalRow> rows(Dataset<Row> frame) {
    return ((org.apache.spark.sql.classic.Dataset<Row>) frame).queryExecution().toRdd().toJavaRDD();
  }
}
