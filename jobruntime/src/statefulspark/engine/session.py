"""The Spark session of a driver, built on a JVM that was started early (`gateway`), with the settings of `settings`."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyspark
from py4j.java_gateway import JavaClass
from pyspark import SparkContext, java_gateway
from pyspark.core import context
from pyspark.sql import SparkSession

from statefulspark import errors, threads
from statefulspark._version import __version__
from statefulspark.contract import config, engine
from statefulspark.engine import apiserver, gateway, settings, sparklogfile
from statefulspark.storage import StorageOptions

if TYPE_CHECKING:
    from pathlib import Path

    from py4j.java_gateway import JVMView

_log = logging.getLogger(__name__)
_DAEMON = "spark.python.daemon.module"
_PYSPARKS_OWN: Any = java_gateway.launch_gateway
_KEEP_SOURCE, _WITHOUT_CHECKSUM_FILE = False, True
_BUILDING = threading.Lock()


def hadoop_uri(uri: str) -> str:
    """Return a storage URI as Hadoop's Path prints it: s3:// becomes s3a://, file:/// becomes file:/."""
    if uri.startswith("s3://"):
        return "s3a://" + uri.removeprefix("s3://")
    return "file:" + uri.removeprefix("file://") if uri.startswith("file://") else uri


def download(session: SparkSession, uri: str, target: Path) -> None:
    """Copy a file to this machine, read as Spark reads its files; no checksum file is written beside it.

    Args:
        session: The session.
        uri: The file, as Hadoop's Path prints it.
        target: The copy; a file there is replaced.

    Raises:
        Py4JError: The file could not be read.
    """
    source, copy = (jvm_view(session).org.apache.hadoop.fs.Path(name) for name in (uri, target.as_uri()))
    file_system = source.getFileSystem(session._jsc.hadoopConfiguration())
    file_system.copyToLocalFile(_KEEP_SOURCE, source, copy, _WITHOUT_CHECKSUM_FILE)


@dataclass(slots=True)
class _Begun:
    session: Future[SparkSession] | None = None
    context: SparkContext | None = None
    """What this module has made last; in a notebook the next run finds it."""


_begun = _Begun()


def begin(job: config.JobConfig, options: StorageOptions) -> None:
    """Start Spark in another thread, and return at once; `build` waits for it and raises what it raised.

    Until Spark's session is built, this process has nothing to do but to import what the driver consists of. A start that
    was begun before and is still under way, since nobody waited for it, ends first.

    Args:
        job: The driver's configuration.
        options: Endpoint and credentials of the object store.
    """
    _begun.session = threads.beside(lambda: _built(job, options), name="session")


def build(job: config.JobConfig, options: StorageOptions) -> SparkSession:
    """Start Spark with the settings of a job, or wait for it if that was begun.

    Args:
        job: The driver's configuration.
        options: Endpoint and credentials of the object store.

    Returns:
        A running session that logs only warnings and errors.

    Raises:
        SpecRejectedError: `EngineSettingRefused`: a setting would break a guarantee.
        TransientError: `ApiServerSlow`: the API server of Kubernetes did not answer.
        InternalError: `JarsMissing`: the package was built without its jars. `JavaMissing`, `JvmNotStarted`.
    """
    begun, _begun.session = _begun.session, None
    return begun.result() if begun is not None else _built(job, options)


def _built(job: config.JobConfig, options: StorageOptions) -> SparkSession:
    # In a notebook the job is run again while the session of a run that has failed is still being built: two threads would
    # wait for one JVM, and the second would wait in vain for the address that the first has taken, and then end the JVM.
    with _BUILDING:
        if not any(gateway.JARS.glob("statefulspark-checkpoint*.jar")):
            raise errors.InternalError(
                "JarsMissing", f"There are no jars in {gateway.JARS}; build them with `make jars`."
            )
        settings.check_settings(job.engine.conf)
        conf = settings.spark_conf(job, options)
        with use_drivers_jvm(conf):
            SparkContext._ensure_initialized()
        existing = SparkContext._active_spark_context
        if existing is not None and existing is not _begun.context:
            conf = _without_own(conf, existing, is_master_free=job.engine.master is None)
        builder = SparkSession.builder
        for key, value in conf.items():
            builder = builder.config(key, value)
        session = apiserver.patiently(builder.getOrCreate)
        _begun.context = session.sparkContext if existing is None else _begun.context
        session.sparkContext.setLogLevel("WARN")
        _log.info("spark is up", extra={"master": session.sparkContext.master})
        return session


@contextlib.contextmanager
def use_drivers_jvm(conf: Mapping[str, str]) -> Iterator[None]:
    """Let PySpark use the driver's own JVM within the block, whoever makes the first session there.

    A session that the job file makes has the settings of the driver then, but for those that the file gives it.

    Args:
        conf: The settings of the driver.
    """
    # Workers must use this interpreter, because it has the job's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    module: Any = context
    before = module.launch_gateway

    def launch_gateway(*given: object, **named: object) -> object:
        sparklogfile.start_jvm(conf)
        with gateway.connect(conf):
            return _PYSPARKS_OWN(*given, **named)

    module.launch_gateway = launch_gateway
    try:
        yield
    finally:
        module.launch_gateway = before


def _without_own(conf: Mapping[str, str], made: SparkContext, *, is_master_free: bool) -> dict[str, str]:
    """Return the settings that a session of the job file gets; what the file has set itself stays as it is.

    Args:
        conf: The settings of the driver.
        made: What the file, or a module that it imports, has made.
        is_master_free: Whether nobody has configured where Spark runs.

    Raises:
        SpecRejectedError: `SessionRefused`: it was made before the job ran, or has settings that would break a guarantee.
    """
    classes = cast("JVMView", made._jvm).io.statefulspark.checkpoint
    if not isinstance(classes.ConditionalCheckpointFileManager, JavaClass):
        raise _session_refused(
            "its JVM has none of the jars of a driver, since the file was not started with `statefulspark run FILE`"
        )
    set_by_file = {key for key, value in conf.items() if made.getConf().get(key, value) != value}
    if is_master_free:
        set_by_file.discard("spark.master")
    refused = [f"{setting.key} ({setting.reason})" for setting in engine.find_refused(sorted(set_by_file))]
    if made.getConf().get(_DAEMON) != conf[_DAEMON]:
        refused.append(f"{_DAEMON} (workers keep state between batches)")
    if refused:
        raise _session_refused(f"it sets {'; '.join(refused)}")
    return {key: value for key, value in conf.items() if key not in set_by_file and key != "spark.master"}


def _session_refused(why: str) -> errors.SpecRejectedError:
    return errors.SpecRejectedError(
        "SessionRefused",
        f"The job cannot use the Spark session that the job file, or a module that it imports, has made: {why}. Use the "
        "session that a query function is given, and put its settings into engine.conf.",
    )


def jvm_view(session: SparkSession) -> JVMView:
    """Return the JVM of a session; a classic session always has one."""
    jvm = session._jvm
    assert jvm is not None  # noqa: S101 - see above
    return jvm


def activate(session: SparkSession) -> None:
    """Make a session the active one of the calling thread: Spark needs that, and another thread may have built it."""
    jvm = jvm_view(session)
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


def has_executors_elsewhere(session: SparkSession) -> bool:
    """Tell whether tasks run in other processes than the driver's, which share no disk with it."""
    return not settings.is_local(str(session.sparkContext.master))


def executors(session: SparkSession) -> frozenset[str]:
    """Return the executors in other processes that are registered now, by their addresses."""
    context = session._jsc.sc()
    addresses = str(context.getExecutorMemoryStatus().keys().mkString(" ")).split()
    own = str(jvm_view(session).io.statefulspark.internals.Environment.address())
    return frozenset(addresses) - {own}


def maintenance_interval_s(session: SparkSession) -> float:
    """Return how often the state stores of a session upload snapshots, and are closed if their query has ended."""
    return int(session._jsparkSession.sessionState().conf().streamingMaintenanceInterval()) / 1000


def versions() -> dict[str, str]:
    """Return the versions of the software that writes the state, for manifests."""
    return {
        "statefulspark": __version__,
        "pyspark": pyspark.__version__,
        "python": platform.python_version(),
    }
