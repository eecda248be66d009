"""Starts Spark's JVM by itself, early and with everything that makes it start fast.

PySpark starts its JVM through two shell scripts and a second, short-lived JVM, when the session is built. Here it is started
directly, as soon as the configuration is known, so that it comes up while Python is still importing. It gets

- one sorted class path, on which a class-data-sharing archive made with the image can be used (`jobruntime/image`),
- no settings on its command line, which other processes can read,
- a session of its own, so that a signal to the driver's process group reaches the driver alone, which then drains.

The JVM ends when its standard input does, so never later than this process. This module needs no PySpark to be imported.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from statefulspark import errors

JARS = Path(__file__).resolve().parents[1] / "jars"
ENV_ARCHIVE = "STATEFULSPARK_JVM_ARCHIVE"
"""Names the class-data-sharing archive; the JVM ignores one that does not fit it."""
START_LIMIT_S = 120.0
DEFAULT_MEMORY = "1g"
_LOOK_S = 0.02

_OPENED = (
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
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
"""What Spark's own launcher passes (`org.apache.spark.launcher.JavaModuleOptions` of 4.2); a test compares them."""

START_OPTIONS = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Leave the optimising compiler to code that is really hot: at a start it takes a third of all processor time."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A JVM on its way up.

    Attributes:
        process: The JVM.
        folder: Private folder with its settings; it writes there how to reach it.
    """

    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def answer(self) -> Path:
        """The file that appears when the JVM can be reached."""
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


def start(conf: Mapping[str, str]) -> None:
    """Start this process's JVM, unless that has been done; returns at once.

    Args:
        conf: Spark's settings; memory, Java options and packages have to be known now, everything else may follow.

    Raises:
        InternalError: `JavaMissing`.
    """
    if _started.launch is None:
        _started.launch = launch(conf)


def connect(conf: Mapping[str, str]) -> None:
    """Wait for this process's JVM, starting it if need be, and let PySpark find it.

    Args:
        conf: See `start`.

    Raises:
        InternalError: `JavaMissing`, or `JvmNotStarted`: it ended, or was not up within two minutes.
    """
    start(conf)
    assert _started.launch is not None  # noqa: S101 - it was just started
    port, secret = wait(_started.launch)
    _started.is_connected = True
    # PySpark's own way of being given a JVM.
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret


def abandon() -> None:
    """End a JVM that was started and never used; one that PySpark knows ends with this process."""
    if _started.launch is not None and not _started.is_connected:
        _started.launch.stop()
        _started.launch = None


def launch(conf: Mapping[str, str], java_options: Sequence[str] = ()) -> Launch:
    """Start a JVM; see `start`.

    Args:
        conf: Spark's settings.
        java_options: More options for this JVM alone.
    """
    java = shutil.which("java", path=_java_path())
    if java is None:
        raise errors.InternalError("JavaMissing", "There is no java in JAVA_HOME or PATH; Spark needs Java 17.")
    folder = Path(tempfile.mkdtemp(prefix="statefulspark-jvm-"))
    settings = folder / "spark.properties"
    settings.write_text("".join(f"{_escape(key, is_key=True)}={_escape(value)}\n" for key, value in conf.items()))
    home = spark_home()
    command = [
        java,
        *["-cp", ":".join(class_path(home))],
        f"-Xmx{conf.get('spark.driver.memory', DEFAULT_MEMORY)}",
        *MODULE_OPTIONS,
        *START_OPTIONS,
        *_archive_option(java_options),
        *java_options,
        *shlex.split(conf.get("spark.driver.defaultJavaOptions", "")),
        *shlex.split(conf.get("spark.driver.extraJavaOptions", "")),
        *["org.apache.spark.deploy.SparkSubmit", "--properties-file", str(settings), "pyspark-shell"],
    ]
    # With a home, Spark lets Python workers import PySpark from its zip file, which has no bytecode: each compiles it anew.
    without_home = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    env = {
        **without_home,
        "SPARK_CONNECT_MODE": "0",
        "PYTHONHASHSEED": "0",  # as Spark's scripts do: workers must agree on hashes
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "gateway"),
    }
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=env, start_new_session=True)
    return Launch(process, folder)


def wait(launched: Launch) -> tuple[int, str]:
    """Wait until a JVM can be reached.

    Returns:
        Port and secret of its gateway.

    Raises:
        InternalError: `JvmNotStarted`.
    """
    deadline = time.monotonic() + START_LIMIT_S
    while not launched.answer.exists():
        code = launched.process.poll()
        if code is not None or time.monotonic() > deadline:
            launched.stop()
            how = f"ended with code {code}" if code is not None else f"was not up within {START_LIMIT_S:.0f} s"
            raise errors.InternalError(
                "JvmNotStarted",
                f"Spark's JVM {how}; what it printed says why. Check driver.memory and the Java options.",
            )
        time.sleep(_LOOK_S)
    answer = launched.answer.read_bytes()
    shutil.rmtree(launched.folder)
    port, length = struct.unpack_from(">ii", answer)
    return port, answer[8 : 8 + length].decode()


def spark_home() -> Path:
    """Return PySpark's folder, without importing it."""
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise errors.InternalError("SparkMissing", "PySpark is not installed; install statefulspark[spark].")
    return Path(found.submodule_search_locations[0])


def class_path(home: Path) -> list[str]:
    """Return every jar by name, sorted: with a wildcard the order is the file system's, and no archive would fit."""
    own, sparks = sorted(JARS.glob("*.jar")), sorted((home / "jars").glob("*.jar"))
    # Spark's launcher puts this one first, as other jars hold older copies of its classes.
    first = [jar for jar in sparks if jar.name.startswith("slf4j-api-")]
    return [str(jar) for jar in [*own, *first, *(jar for jar in sparks if jar not in first)]]


def _archive_option(java_options: Sequence[str]) -> list[str]:
    archive = os.environ.get(ENV_ARCHIVE, "")
    is_being_made = any("ArchiveClassesAtExit" in option for option in java_options)
    return [f"-XX:SharedArchiveFile={archive}"] if archive and Path(archive).is_file() and not is_being_made else []


def _java_path() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin" if home else os.environ.get("PATH", "")


def _escape(text: str, *, is_key: bool = False) -> str:
    r"""Write a key or value of a properties file, where \, =, : and line ends have a meaning."""
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    escaped = escaped.replace("=", "\\=").replace(":", "\\:") if is_key else escaped
    return "\\" + escaped if escaped.startswith(" ") else escaped
