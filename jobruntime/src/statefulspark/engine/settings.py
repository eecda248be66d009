"""The settings of a driver's Spark session: those that the guarantees need, and those that the user may set.

The user cannot change the settings in `_guaranteed`; `contract.engine` refuses them by name. Those in `_storage` follow from
the configuration of the storage. All other settings have a default that suits streaming on a few cores, and can be
overridden. This module does not import PySpark.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from statefulspark import errors, storage
from statefulspark.contract import config, engine
from statefulspark.engine import gateway
from statefulspark.sparkinternals import stateformats
from statefulspark.storage import StorageOptions

FILE_SYSTEM = "io.statefulspark.storage.ReadAheadFileSystem"
LOCAL_FILE_SYSTEM = "io.statefulspark.storage.LocalStateFileSystem"
S3_INTERCEPTORS = "io.statefulspark.storage.NotFoundInterceptor,io.statefulspark.storage.ContentMd5Interceptor"
"""For every request of Hadoop's S3A: doubts a 404 that is not the object store's own, and sends a checksum with uploads."""
FILE_MANAGER = "io.statefulspark.checkpoint.ConditionalCheckpointFileManager"
WORKER_DAEMON = "statefulspark.workers.daemon"
STATE_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CLASS_PATHS = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")
CREDENTIALS = "spark.hadoop.fs.s3a.aws.credentials.provider"
AUTHORITIES = "spark.hadoop.statefulspark.s3.ca"
"""The file with authorities that the file system has its JVM trust, of the driver and of executors."""
LOGIN_IN_OPTIONS = r'(?<=\bpassword=)"(?:[^"\\]++|\\.)*+"'
"""A quoted password in the options of a Kafka source, with its escapes, as a regular expression of Java."""
REQUEST_TIMEOUT_S = 30
"""How long a store may say nothing: to an upload (Hadoop: 200 s), and to any other request (Hadoop: 60 s)."""
MAINTENANCE_INTERVAL = "spark.sql.streaming.stateStore.maintenanceInterval"
CLOUD_ROLES = ",".join(
    (
        "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
        "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider",
        "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",
    )
)
"""Where S3A looks for credentials that nobody has given, as boto does for everything else: Hadoop's own list leaves out the
token of a service account, and would take the role of the node."""


def storage_options(given: config.StorageConfig) -> StorageOptions:
    """Return the options of the object store: from the configuration, with credentials from the environment."""
    return StorageOptions.from_env(
        endpoint=given.s3.endpoint,
        region=given.s3.region,
        path_style=given.s3.addressing is config.Addressing.PATH,
        allow_local_files=given.allow_local_files,
        ca_file=given.s3.ca_file,
    )


def require_startable(job: config.JobConfig) -> None:
    """Refuse what can be known to be wrong before Spark starts: settings, endpoint and region, and every location.

    Raises:
        SpecRejectedError: `EngineSettingRefused`, `EndpointInvalid`, `RegionInvalid`, `StorageUriInvalid` or
            `LocalStorageRefused`.
    """
    check_settings(job.engine.conf)
    options = storage_options(job.storage)
    replaced = sorted(key for key, value in _storage(options).items() if job.engine.conf.get(key, value) != value)
    if replaced:
        raise errors.SpecRejectedError(
            "EngineSettingRefused",
            f"These Spark settings contradict the endpoint or the credentials of the job's storage: {', '.join(replaced)}. "
            "Remove them, or configure only them and neither the endpoint nor keys of the storage.",
        )
    restored = job.restore.source.uri if job.restore.source is not None else None
    for uri in (job.storage.uri, job.savepoint_location, restored):
        if uri is not None:
            storage.require_location(uri.rstrip("/"), options)


def check_settings(conf: Mapping[str, str]) -> None:
    """Refuse all settings that would break a guarantee, in one error.

    Raises:
        SpecRejectedError: `EngineSettingRefused`, naming each setting and why.
    """
    refused = [f"{setting.key} ({setting.reason})" for setting in engine.find_refused(sorted(conf))]
    if refused:
        raise errors.SpecRejectedError(
            "EngineSettingRefused", "These Spark settings belong to the runtime; remove them: " + "; ".join(refused)
        )


def spark_conf(job: config.JobConfig, options: StorageOptions) -> dict[str, str]:
    """Return every setting of a job's session.

    Args:
        job: The driver's configuration.
        options: Endpoint and credentials of the object store.
    """
    master = job.engine.master or "local[*]"
    # Spark without executors stays off the network.
    loopback = {"spark.driver.host": "localhost", "spark.driver.bindAddress": "127.0.0.1"}
    conf = {
        "spark.app.name": f"{job.namespace}/{job.name}",
        "spark.master": master,
        **_defaults(options),
        **worker_settings(),
        **(loopback if is_local(master) else {}),
        **job.engine.conf,
        **job.engine.platform,
        **_guaranteed(),
        **_storage(options),
    }
    # The product's jars come before those that the job has on its class path.
    return conf | {key: ":".join(filter(None, (gateway.own_class_path(), conf.get(key)))) for key in CLASS_PATHS}


def _guaranteed() -> dict[str, str]:
    """Return what a job cannot change; `contract.engine` refuses each of them by name."""
    return {
        "spark.sql.streaming.stateStore.providerClass": STATE_PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.streaming.stateStore.rowChecksum.enabled": "false",
        "spark.sql.streaming.offsetLog.formatVersion": "1",
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
        # Only the pruner deletes: Spark would delete files that a retained checkpoint still needs.
        "spark.sql.streaming.minBatchesToRetain": "1000000000",
        "spark.sql.streaming.fileSource.log.deletion": "false",
        # A stage that runs again and gives other rows is never mixed with rows of its first attempt (Spark 4.2).
        "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
        "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
    }


def is_local(master: str) -> bool:
    """Tell whether tasks run in the driver's own JVM and its workers, on its machine: `local`, `local[4]`."""
    return master.startswith("local")


def _defaults(options: StorageOptions) -> dict[str, str]:
    cores = str(max(2, os.cpu_count() or 2))
    return {
        "spark.ui.enabled": "false",
        # Who enables the UI serves it to everybody who reaches the pod, without a login.
        "spark.ui.killEnabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # The options of a source are in a plan that is not analyzed, in the clear before Spark 4.2.
        "spark.sql.redaction.string.regex": LOGIN_IN_OPTIONS,
        # A snapshot names the files of this machine that its tables are copied to (Spark 4.2).
        "spark.hadoop.fs.file.impl": LOCAL_FILE_SYSTEM,
        # State goes on in the form that a query's first batch has pinned. This one lets a job go back to an older release.
        **stateformats.readable_settings(),
        # Spark fixes this at a query's first batch; its default of 200 means 200 small files in each batch.
        "spark.sql.shuffle.partitions": cores,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.metricsEnabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "200",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.scheduler.mode": "FAIR",
        # Counting rows needs one more lookup of each key before it is written, and again when changelogs are replayed.
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        MAINTENANCE_INTERVAL: f"{engine.SNAPSHOT_INTERVAL_S}s",
        # Hadoop's default reads ahead in threads of its own, which small files of logs and state only pay for: a third more
        # processor time for each file of 3 kB, and twice as much for one of 60 MB.
        "spark.hadoop.fs.s3a.input.stream.type": "classic",
        # A query waits that long before it can try again, fail or stop.
        "spark.hadoop.fs.s3a.connection.timeout": f"{REQUEST_TIMEOUT_S}s",
        "spark.hadoop.fs.s3a.connection.request.timeout": f"{REQUEST_TIMEOUT_S}s",
        CREDENTIALS: CLOUD_ROLES,
        "spark.hadoop.fs.s3a.endpoint.region": options.region or "us-east-1",
        # Saves one round trip for each PUT; servers report errors without it, too.
        "spark.hadoop.fs.s3a.connection.expect.continue": "false",
        "spark.hadoop.fs.s3a.attempts.maximum": "10",
        "spark.hadoop.fs.s3a.connection.establish.timeout": "15s",
        "spark.hadoop.fs.s3a.connection.maximum": "64",
    }


def worker_settings() -> dict[str, str]:
    """Return the settings of Python workers."""
    return {
        # A worker that starts on a busy machine may need more than the 15 s that Spark allows.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.python.daemon.module": WORKER_DAEMON,
        "spark.executorEnv.STATEFULSPARK_KEEP_WORKERS": "true",
        # Spark sets this only for some Python operators, and would then start two daemons: one with it and one without.
        "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1",
        # Spark sends larger functions as broadcast variables, which its Python worker on the driver cannot read: a larger
        # keyed function does not start. The default is 1 MB.
        "spark.broadcast.UDFCompressionThreshold": "256m",
    }


def _storage(options: StorageOptions) -> dict[str, str]:
    """Return what follows from the storage section of the configuration."""
    prefix = "spark.hadoop.fs.s3a."
    conf = {
        prefix + "impl": FILE_SYSTEM,
        prefix + "path.style.access": str(options.path_style).lower(),
        prefix + "change.detection.mode": "none",
        prefix + "audit.execution.interceptors": S3_INTERCEPTORS,
    }
    if options.endpoint:
        conf[prefix + "endpoint"] = options.endpoint
        conf[prefix + "connection.ssl.enabled"] = str(options.endpoint.startswith("https")).lower()
    if options.authority is not None and options.authority.file is not None:
        conf[AUTHORITIES] = options.authority.file
    if options.access_key and options.secret_key:
        conf[prefix + "access.key"] = options.access_key
        conf[prefix + "secret.key"] = options.secret_key
        if options.session_token:
            conf[prefix + "session.token"] = options.session_token
            conf[CREDENTIALS] = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
        else:
            conf[CREDENTIALS] = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    return conf
