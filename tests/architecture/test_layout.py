"""Folders and names that would break every Python started in this repository, or every job that uses the library."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_PUBLIC = {
    "statefulspark": [
        "AVAILABLE_NOW",
        "AggregateFunction",
        "AggregatingState",
        "FunctionMetrics",
        "InputRow",
        "Job",
        "KeyedContext",
        "KeyedProcessFunction",
        "ListState",
        "MAX_WATERMARK",
        "MapState",
        "MetricCounter",
        "MetricGauge",
        "Output",
        "QueryContext",
        "ReducingState",
        "Secret",
        "Timers",
        "Ttl",
        "TtlChange",
        "TtlUpdate",
        "TtlVisibility",
        "ValueState",
        "VectorizedProcessFunction",
        "codecs",
        "compat",
        "driver",
        "errors",
        "flat_map_with_state",
        "keyed_process",
        "map_with_state",
        "named_source",
        "read_function",
        "read_state",
        "sinks",
        "testing",
        "write",
    ],
    "statefulspark.sinks": [
        "AfterLostMarker",
        "DriverSink",
        "FilesSink",
        "IcebergSink",
        "JsonSerializer",
        "KafkaConnection",
        "KafkaRecord",
        "KafkaSink",
        "PostgresSink",
        "Sink",
        "spi",
        "Visibility",
    ],
    "statefulspark.sinks.spi": [
        "ChecksSchema",
        "Marker",
        "MergesTransactions",
        "SinkContext",
        "StagedRows",
        "StorageOptions",
        "TellsMarker",
        "TwoPhaseSink",
        "merge",
        "merge_batches",
        "open_marker",
        "parse",
        "read",
        "require_newest",
        "stage",
    ],
    "statefulspark.driver": [
        "BroadcastSinkFunction",
        "BroadcastState",
        "CheckpointListener",
        "CheckpointedFunction",
        "FunctionInitializationContext",
        "FunctionSnapshotContext",
        "ListCheckpointed",
        "MasterHook",
        "OperatorListState",
        "OperatorStateStore",
        "SinkFunction",
        "SourceCancelledError",
        "SourceContext",
        "SourceFunction",
    ],
    "statefulspark.codecs": [
        "Codec",
        "CodecCompatibility",
        "CodecVersion",
    ],
    "statefulspark.compat": [
        "apply_in_pandas_with_state",
        "transform_with_state",
        "transform_with_state_in_pandas",
    ],
    "statefulspark.testing": [
        "JobHarness",
        "JobTestError",
        "KeyedHarness",
        "KillPoint",
        "QueryHarness",
        "TwoPhaseSinkContract",
    ],
}
_PUBLIC_NAMES = [(module, name) for module, names in _PUBLIC.items() for name in names]


def _python(code: str, *, cwd: Path = ROOT) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=cwd, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def _brought(code: str, *modules: str) -> str:
    """Return which of some modules are imported once code has run, as Python prints a list."""
    return _python(f"{code}\nimport sys\nprint([name for name in {modules} if name in sys.modules])")


def test_operator_is_the_standard_library_from_the_root() -> None:
    """`operator/` is a project folder; a package of that name would shadow the standard library."""
    assert (
        Path(_python("import operator; print(operator.__file__)")).parent
        == Path(_python("import os; print(os.__file__)")).parent
    )


def test_operator_folder_is_no_package_and_holds_no_module() -> None:
    assert sorted(path.name for path in (ROOT / "operator").glob("*.py")) == []


@pytest.mark.parametrize("folder", ["tests", "e2e", "bench", "examples"])
def test_no_import_path_of_the_tests_holds_a_package_named_as_the_standard_library(folder: str) -> None:
    """Pytest puts `tests/support` and `e2e` on the path; what lies there must not be found first."""
    on_path = [path for path in (ROOT / folder, ROOT / folder / "support") if path.is_dir()]
    names = {child.stem for path in on_path for child in path.iterdir() if child.suffix == ".py" or _is_package(child)}

    assert names & sys.stdlib_module_names == set()


def test_parts_of_the_makefile_live_beside_their_subject() -> None:
    folders = ("bench", "charts", "docs", "e2e", "examples", "jobruntime", "operator", "release", "tests")
    parts = sorted(str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).rglob("*.mk"))
    included = re.findall(r"^include (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert (sorted(included), list(ROOT.glob("*.mk"))) == (parts, [])


def _is_package(path: Path) -> bool:
    return (path / "__init__.py").exists()


def test_test_folders_are_no_packages() -> None:
    """With importlib mode a test's folder is no package, so equal names in two folders do not collide."""
    assert [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("__init__.py")] == []


@pytest.mark.parametrize("module", _PUBLIC)
def test_the_public_names_stay_what_they_are(module: str) -> None:
    """A name that is gone breaks every job file that uses it; adding one is a decision."""
    public = importlib.import_module(module)

    assert sorted(public.__all__) == sorted(_PUBLIC[module])
    assert [name for name in dir(public) if not name.startswith("__")] == sorted(_PUBLIC[module])
    assert {"__name__", "__doc__"} <= set(dir(public))


@pytest.mark.parametrize("module", _PUBLIC)
def test_a_public_name_is_written_once_and_on_a_line_of_its_own(module: str) -> None:
    public = Path(str(importlib.import_module(module).__file__))
    lines = [line.split() for line in public.with_suffix(".pyi").read_text().splitlines() if line.startswith("from ")]
    code = public.read_text()

    assert sorted(words[3] for words in lines) == sorted(_PUBLIC[module])
    assert [words for words in lines if words != ["from", words[1], "import", words[3], "as", words[3]]] == []
    assert [name for name in _PUBLIC[module] if f'"{name}"' in code or f"import {name}" in code] == []


def test_importing_the_library_imports_nothing_but_its_version_and_the_loader_of_names() -> None:
    code = "import sys; before = set(sys.modules); import statefulspark; print(sorted(set(sys.modules) - before))"

    assert _python(code) == "['statefulspark', 'statefulspark._exports', 'statefulspark._version']"


@pytest.mark.parametrize("module", [name for name in _PUBLIC if "." in name])
def test_a_public_module_needs_no_import_of_its_own_and_loads_nothing_by_itself(module: str) -> None:
    code = f"import sys, statefulspark; {module}; print([name for name in sys.modules if name.startswith('statefulspark')])"

    assert set(ast.literal_eval(_python(code))) == {
        "statefulspark",
        "statefulspark._exports",
        "statefulspark._version",
        module.removesuffix(".spi"),
        module,
    }


@pytest.mark.parametrize(("module", "name"), _PUBLIC_NAMES)
def test_every_public_name_leads_somewhere_and_is_kept(module: str, name: str) -> None:
    public = importlib.import_module(module)

    assert getattr(public, name).__doc__
    assert vars(public)[name] is getattr(public, name)


@pytest.mark.parametrize(
    "module",
    [
        "statefulspark",
        "statefulspark.contract.api",
        "statefulspark.contract.config",
        "statefulspark.coordinator.machine",
        "statefulspark.checkpoint.catalog",
        "statefulspark.recovery.recovery",
        "statefulspark.checkpoint.verify",
        "statefulspark.storage",
        "statefulspark.job",
        "statefulspark.server.http",
        "statefulspark.cli.main",
    ],
)
def test_what_reads_storage_starts_without_an_engine(module: str) -> None:
    assert _brought(f"import {module}", "pyspark", "py4j", "pandas", "pyarrow", "kopf", "kubernetes") == "[]"


@pytest.mark.parametrize("operator", ["keyed", "transform"])
def test_spark_plans_an_operator_without_what_only_batches_need(operator: str) -> None:
    """Spark has each start run the operator once in a process of its own, and waits for it."""
    assert (
        _brought(f"import statefulspark.operators.{operator}.processor", "pandas", "pydantic", "fsspec", "s3fs") == "[]"
    )


def test_a_driver_starts_without_what_only_a_scrape_needs() -> None:
    assert _python("import sys, statefulspark.server.http; print('prometheus_client' in sys.modules)") == "False"


def test_the_operator_starts_without_an_engine() -> None:
    code = (
        "import pkgutil, importlib, statefulspark_operator as top; "
        "names = [m.name for m in pkgutil.walk_packages(top.__path__, 'statefulspark_operator.')]; "
        "[importlib.import_module(name) for name in names if not name.endswith('__main__')]"
    )

    assert _brought(code, "pyspark", "py4j", "pandas", "pyarrow") == "[]"


def test_the_product_brings_no_http_server_but_aiohttps() -> None:
    """The training of the image's archive needs an S3 to talk to; it was shipped with every job."""
    sources = [path for folder in ("jobruntime/src", "operator/src") for path in (ROOT / folder).rglob("*.py")]

    assert [str(path) for path in sources if re.search(r"\bhttp\.server\b", path.read_text())] == []


@pytest.mark.parametrize("package", ["contract", "coordinator"])
def test_pure_packages_read_no_clock_and_no_environment(package: str) -> None:
    """import-linter sees imports; these are calls."""
    sources = (ROOT / "jobruntime/src/statefulspark" / package).glob("*.py")
    impure = ("datetime.now", "time.monotonic", "time.time", "os.environ", "open(", "print(")

    found = [f"{source.name}: {call}" for source in sources for call in impure if call in source.read_text()]

    assert found == []


_NAMED_BY_SPARK_AND_BY_FLINK = {"ValueState", "ListState", "MapState"}


@pytest.mark.parametrize("distribution", ["jobruntime/src/statefulspark", "operator/src/statefulspark_operator"])
def test_no_two_public_classes_of_a_distribution_have_one_name(distribution: str) -> None:
    classes = Counter(
        node.name
        for path in (ROOT / distribution).rglob("*.py")
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    assert {name for name, count in classes.items() if count > 1} - _NAMED_BY_SPARK_AND_BY_FLINK == set()


_SAYS_NOTHING = {"found", "one", "told", "place", "thing", "known", "wanted"}


@pytest.mark.parametrize("distribution", ["jobruntime/src/statefulspark", "operator/src/statefulspark_operator"])
def test_variables_say_what_they_hold(distribution: str) -> None:
    stored = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.id}"
        for path in sorted((ROOT / distribution).rglob("*.py"))
        if "contract" not in path.parts  # names of fields in stored documents
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in _SAYS_NOTHING
    ]

    assert stored == []


def test_every_builder_exists_once() -> None:
    """A builder is a function `a_manifest`, `an_operator`: a second one of its name builds the same, or something else."""
    builders = [
        (node.name.lstrip("_"), path.relative_to(ROOT).as_posix())
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.FunctionDef) and re.match(r"_?an?_", node.name)
    ]
    names = Counter(name for name, _ in builders)

    assert [(name, path) for name, path in builders if names[name] > 1] == []


_TALKED_TO_OVER_PIPES = {
    "tests/spark/checkpoint_manager/test_two_drivers.py",
    "tests/support/workerdaemonrig.py",
    "bench/flink/process.py",
    "bench/restart.py",
    "bench/turns.py",
}


def test_servers_and_drivers_of_tests_and_benchmarks_are_started_in_one_place() -> None:
    """Elsewhere a start has no deadline, an end no process id, and an error does not show the log."""
    sources = [path for folder in ("tests", "bench") for path in (ROOT / folder).rglob("*.py")]
    starting = {path.relative_to(ROOT).as_posix() for path in sources if "Popen(" in path.read_text()}

    assert starting - {Path(__file__).relative_to(ROOT).as_posix()} == _TALKED_TO_OVER_PIPES | {
        "tests/support/processes.py"
    }
