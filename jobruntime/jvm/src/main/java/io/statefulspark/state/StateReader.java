package io.statefulspark.state;

import io.statefulspark.internals.Differences;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.state.StateSourceOptions;
import org.apache.spark.sql.execution.streaming.state.StateSchemaCompatibilityChecker;
import org.apache.spark.sql.execution.streaming.state.StateStoreColFamilySchema;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** Reads one state store of one operator at a committed batch, as a table with a column per column family. */
public final class StateReader {

  private StateReader() {}

  /**
   * Returns the column families of a store as a JSON schema: a struct {@code <family>: struct<key, value>}.
   *
   * @param root the query's checkpoint root
   * @param schemaPaths the paths in the operator's metadata; empty for metadata of version 1
   */
  public static String families(
      SparkSession session, String root, long operator, String store, List<String> schemaPaths) {
    StateStoreId id = new StateStoreId(root + "/state", operator, 0, store);
    List<Path> paths = new ArrayList<>();
    schemaPaths.forEach(path -> paths.add(new Path(path)));
    StateSchemaCompatibilityChecker schemas =
        Differences.schemas(
            new StateStoreProviderId(id, UUID.randomUUID()),
            session.sessionState().newHadoopConf(),
            CollectionConverters.asScala(paths).toList());
    StructType families = new StructType();
    for (StateStoreColFamilySchema schema : CollectionConverters.asJava(schemas.readSchemaFile())) {
      StructType family = new StructType().add("key", schema.keySchema()).add("value", schema.valueSchema());
      families = families.add(schema.colFamilyName(), family);
    }
    return families.json();
  }

  /** Returns all rows of a store: partition_key, key_bytes, value_bytes, column_family_name. */
  public static Dataset<Row> read(SparkSession session, String root, long batch, long operator, String store) {
    return session
        .read()
        .format("statestore")
        .option(StateSourceOptions.PATH(), root)
        .option(StateSourceOptions.BATCH_ID(), batch)
        .option(StateSourceOptions.OPERATOR_ID(), operator)
        .option(StateSourceOptions.STORE_NAME(), store)
        .option(StateSourceOptions.INTERNAL_ONLY_READ_ALL_COLUMN_FAMILIES(), "true")
        .load();
  }

  /**
   * Returns the same rows with their values: partition_key, then a struct {@code <key, value>} per family, null in the rows
   * of other families.
   *
   * @param schema JSON of the requested columns; a key or value that is requested as binary is not converted
   */
  public static Dataset<Row> unpack(SparkSession session, Dataset<Row> state, String schema) {
    StructType wanted = (StructType) DataType.fromJson(schema);
    StructField[] fields = wanted.fields();
    int partitionKeyFields = ((StructType) fields[0].dataType()).length();
    JavaRDD<InternalRow> rows =
        ((org.apache.spark.sql.classic.Dataset<Row>) state)
            .queryExecution()
            .toRdd()
            .toJavaRDD()
            .map(row -> unpackRow(row, fields, partitionKeyFields));
    return session.internalCreateDataFrame(rows.rdd(), wanted, false);
  }

  private static InternalRow unpackRow(InternalRow row, StructField[] fields, int partitionKeyFields) {
    String family = row.getString(3);
    Object[] columns = new Object[fields.length];
    columns[0] = row.getStruct(0, partitionKeyFields);
    for (int i = 1; i < fields.length; i++) {
      if (fields[i].name().equals(family)) {
        StructField[] pair = ((StructType) fields[i].dataType()).fields();
        Object key = side(row.getBinary(1), pair[0].dataType());
        Object value = side(row.getBinary(2), pair[1].dataType());
        columns[i] = new GenericInternalRow(new Object[] {key, value});
        return new GenericInternalRow(columns);
      }
    }
    throw new IllegalStateException("The state has a column family that is not in its schema: " + family);
  }

  private static Object side(byte[] bytes, DataType type) {
    if (type instanceof BinaryType) {
      return bytes;
    }
    UnsafeRow row = new UnsafeRow(((StructType) type).length());
    row.pointTo(bytes, bytes.length);
    return row;
  }
}
