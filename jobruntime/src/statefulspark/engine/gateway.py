"""Starts Spark's JVM directly and early, with the options that make it start fast.

PySpark starts its JVM through two shell scripts and a second, short-lived JVM, when the session is built. This module starts
it as soon as the configuration is known, so that it starts while Python is still importing. The JVM gets

- one sorted class path, which fits the class-data-sharing archive that is made with the image (`jobruntime/image`),
- no settings on its command line, because other processes can read it,
- its own process session, so that a signal to the driver's process group reaches only the driver, which then drains.

The JVM ends when its standard input is closed, so it never outlives this process. This module does not import PySpark.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from statefulspark import errors
from statefulspark.sparkinternals import releases

JARS = Path(__file__).resolve().parents[1] / "jars"
ENV_ARCHIVE = "STATEFULSPARK_JVM_ARCHIVE"
"""Path of the class-data-sharing archive. A file beside it says of which PySpark it is, see `archive_release`."""
START_LIMIT_S = 120.0
OLDEST_JAVA = 17
DEFAULT_MEMORY = "1g"
_POLL_INTERVAL_S = 0.02
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_log = logging.getLogger(__name__)

_OPENED_PACKAGES = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
"""The options of Spark's own launcher (`org.apache.spark.launcher.JavaModuleOptions`); a test compares them."""

START_OPTIONS = (
    "-XX:Tier4InvocationThreshold=150000",
    "-XX:Tier4MinInvocationThreshold=18000",
    "-XX:Tier4CompileThreshold=450000",
    "-XX:Tier4BackEdgeThreshold=1200000",
)
"""Thirty times the JVM's own thresholds, so that the optimising compiler leaves code alone that only a start runs often:
with ten times it took 2.8 s of the processor until all outputs were visible, with these 1.0 s
(`bench/history/2026-11.md`)."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A JVM that is starting.

    Attributes:
        process: The JVM.
        folder: Private folder with its settings; the JVM writes its port and secret there.
    """

    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def connection_file(self) -> Path:
        """The file with port and secret; it appears when the JVM accepts connections."""
        return self.folder / "gateway"

    def stop(self) -> None:
        """End the JVM."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(slots=True)
class _Started:
    launch: Launch | None = None
    is_connected: bool = False


_started = _Started()


def start(conf: Mapping[str, str], java_options: Sequence[str] = (), *, stderr: int | None = None) -> None:
    """Start the JVM of this process, unless it was started before; return at once.

    Args:
        conf: Spark's settings; memory, Java options and packages must be given here, all others may be set later.
        java_options: Options before those of the settings.
        stderr: Descriptor for its standard error, and that of its workers; that of this process when omitted.

    Raises:
        InternalError: `SparkMissing`, `SparkUnsupported` or `JavaMissing`.
    """
    if _started.launch is None:
        _started.launch = launch(conf, java_options, stderr=stderr)


@contextlib.contextmanager
def connect(conf: Mapping[str, str]) -> Iterator[None]:
    """Wait for the JVM of this process, start it if necessary, and name it to PySpark, which connects within the block.

    Args:
        conf: See `start`.

    Raises:
        InternalError: `JavaMissing`, `JavaUnsupported`, or `JvmNotStarted`: it ended, or was not ready within two minutes.
    """
    start(conf)
    assert _started.launch is not None  # noqa: S101 - it was just started
    try:
        port, secret = wait(_started.launch, packages=conf.get("spark.jars.packages"))
    except errors.InternalError:
        _started.launch = None  # In a notebook, the next run starts another one, perhaps with other settings.
        raise
    _log.info("the JVM answers")
    _started.is_connected = True
    with named(port, secret):
        yield


@contextlib.contextmanager
def named(port: int, secret: str) -> Iterator[None]:
    """Name a JVM in the variables by which PySpark finds it, for the block only.

    A process that the job starts later inherits neither the secret nor the JVM: with them, its PySpark would use the
    driver's JVM instead of one of its own.
    """
    os.environ[_PORT], os.environ[_SECRET] = str(port), secret
    try:
        yield
    finally:
        del os.environ[_PORT], os.environ[_SECRET]


def abandon() -> None:
    """Stop a JVM that was started and is not used; a JVM that PySpark uses ends with this process."""
    if _started.launch is not None and not _started.is_connected:
        _started.launch.stop()
        _started.launch = None


def has_started() -> bool:
    """Tell whether the JVM of this process was started here."""
    return _started.launch is not None


def has_ended(within_s: float = 0.0) -> bool:
    """Tell whether the JVM of this process was started here and has ended.

    Args:
        within_s: How long to wait for its end.
    """
    if _started.launch is None:
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        _started.launch.process.wait(within_s)
    return _started.launch.process.poll() is not None


def launch(conf: Mapping[str, str], java_options: Sequence[str] = (), *, stderr: int | None = None) -> Launch:
    """Start a JVM; see `start`.

    Args:
        conf: Spark's settings.
        java_options: More options for this JVM only.
        stderr: See `start`.

    Raises:
        InternalError: `SparkMissing`, `SparkUnsupported`, `JavaMissing` or `JavaUnsupported`.
    """
    jars = class_path()
    java = _java()
    folder = Path(tempfile.mkdtemp(prefix="statefulspark-jvm-"))
    settings = folder / "spark.properties"
    settings.write_text("".join(f"{_escape(key, is_key=True)}={_escape(value)}\n" for key, value in conf.items()))
    is_training = any("ArchiveClassesAtExit" in option for option in java_options)
    archive_options = [f"-XX:SharedArchiveFile={os.environ[ENV_ARCHIVE]}"] if has_archive() and not is_training else []
    command = [
        java,
        *["-cp", ":".join(jars)],
        f"-Xmx{conf.get('spark.driver.memory', DEFAULT_MEMORY)}",
        *MODULE_OPTIONS,
        *START_OPTIONS,
        *archive_options,
        *java_options,
        *shlex.split(conf.get("spark.driver.defaultJavaOptions", "")),
        *shlex.split(conf.get("spark.driver.extraJavaOptions", "")),
        *["org.apache.spark.deploy.SparkSubmit", "--properties-file", str(settings), "pyspark-shell"],
    ]
    # With SPARK_HOME, Python workers import PySpark from its zip file, which has no bytecode: each worker compiles it again.
    without_home = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    env = {
        **without_home,
        "SPARK_CONNECT_MODE": "0",
        "PYTHONHASHSEED": "0",  # as Spark's scripts do: workers must agree on hashes
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "gateway"),
    }
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=stderr, env=env, start_new_session=True)
    return Launch(process, folder)


def _java() -> str:
    """Return the path of `java`, which the file `release` of its installation says to be new enough."""
    java_home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{java_home}/bin" if java_home else os.environ.get("PATH", ""))
    if java is None:
        raise errors.InternalError(
            "JavaMissing", f"There is no java in JAVA_HOME or PATH; Spark needs Java {OLDEST_JAVA} or newer."
        )
    home = Path(java).resolve().parents[1]
    with contextlib.suppress(FileNotFoundError):
        version = re.search(r'^JAVA_VERSION="(\d+)', (home / "release").read_text("utf-8"), re.MULTILINE)
        if version is not None and int(version[1]) < OLDEST_JAVA:
            raise errors.InternalError(
                "JavaUnsupported",
                f"{home} has Java {version[1]}, and Spark needs Java {OLDEST_JAVA} or newer; set JAVA_HOME to one.",
            )
    return java


def archive_release(archive: Path) -> Path:
    """Return the file that has the version of PySpark whose classes are in an archive."""
    return archive.with_name(f"{archive.name}.pyspark")


def has_archive() -> bool:
    """Tell whether there is an archive of the installed PySpark: with one of another, the JVM warns and goes without."""
    named = os.environ.get(ENV_ARCHIVE)
    if not named or not Path(named).is_file():
        return False
    release = archive_release(Path(named))
    return release.is_file() and release.read_text("utf-8") == releases.version()


def wait(launched: Launch, *, packages: str | None = None) -> tuple[int, str]:
    """Wait until a JVM accepts connections.

    Args:
        launched: The JVM.
        packages: The packages that it downloads first, for the error.

    Returns:
        Port and secret of its gateway.

    Raises:
        InternalError: `JvmNotStarted`.
    """
    deadline = time.monotonic() + START_LIMIT_S
    while not launched.connection_file.exists():
        code = launched.process.poll()
        if code is not None or time.monotonic() > deadline:
            launched.stop()
            failure = f"ended with code {code}" if code is not None else f"was not ready within {START_LIMIT_S:.0f} s"
            remedy = "Check driver.heap and the Java options."
            if packages:
                remedy = (
                    f"It downloads {packages} (spark.jars.packages) first: check that the repositories can be reached, or "
                    f"put the jars into the image and name them in spark.jars. {remedy}"
                )
            raise errors.InternalError("JvmNotStarted", f"Spark's JVM {failure}; its output says why. {remedy}")
        time.sleep(_POLL_INTERVAL_S)
    connection = launched.connection_file.read_bytes()
    shutil.rmtree(launched.folder)
    port, length = struct.unpack_from(">ii", connection)
    return port, connection[8 : 8 + length].decode()


def jar_folders() -> tuple[Path, ...]:
    """Return the folders with the product's own jars: for every release of Spark, and for the installed one.

    Raises:
        InternalError: `SparkMissing` or `SparkUnsupported`.
    """
    return JARS, JARS / releases.folder_name()


def own_class_path() -> str:
    """Return the product's own jars as a class path with wildcards.

    Raises:
        InternalError: `SparkMissing` or `SparkUnsupported`.
    """
    return ":".join(f"{folder}/*" for folder in jar_folders())


def class_path() -> list[str]:
    """Return the paths of all jars, sorted: a wildcard has the file system's order, which the archive would not match.

    Raises:
        InternalError: `SparkMissing` or `SparkUnsupported`.
    """
    own_jars = [jar for folder in jar_folders() for jar in sorted(folder.glob("*.jar"))]
    spark_jars = sorted((releases.home() / "jars").glob("*.jar"))
    # Spark's launcher puts this jar first, because other jars contain older copies of its classes.
    first = [jar for jar in spark_jars if jar.name.startswith("slf4j-api-")]
    return [str(jar) for jar in [*own_jars, *first, *(jar for jar in spark_jars if jar not in first)]]


def _escape(text: str, *, is_key: bool = False) -> str:
    r"""Write a key or value of a properties file, where \, =, : and line ends have a meaning."""
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    escaped = escaped.replace("=", "\\=").replace(":", "\\:") if is_key else escaped
    return "\\" + escaped if escaped.startswith(" ") else escaped
