#!/bin/bash
# What a container of the job image runs: a Spark executor when Spark's Kubernetes backend asks for one, or a command.
# The PyPI package of PySpark has no such script; the variables are those of Spark's BasicExecutorFeatureStep.
set -euo pipefail

if [ "${1:-}" != executor ]; then
  exec "$@"
fi

packages=(/opt/statefulspark/lib/python3*/site-packages)
java_options=()
while IFS= read -r -d '' variable; do
  java_options+=("${variable#*=}")
done < <(env -0 | grep -z '^SPARK_JAVA_OPT_' | sort -z -t_ -k4 -n)

# A file of the job's own, in spark.executor.extraJavaOptions, comes later and counts.
log_configuration=-Dlog4j2.configurationFile=${packages[0]}/statefulspark/engine/log4j2-pods.properties

# The jars of the installed release of Spark: spark-core_2.13-4.2.0.jar is of 4.2.
core=("${packages[0]}"/pyspark/jars/spark-core_*.jar)
release=${core[0]##*-}
own="${packages[0]}/statefulspark/jars"

exec java "$log_configuration" "${java_options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}${packages[0]}/pyspark/jars/*:$own/*:$own/spark-${release%.*.jar}/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
