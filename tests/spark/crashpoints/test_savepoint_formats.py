"""Savepoints that a person takes of a live driver, in both formats (A.158): command line, API, loop, writer, Spark, S3."""

from __future__ import annotations

from pathlib import Path

import driverprocess
import processes
import pytest
from s3server import S3Server
from statefulspark import storage
from statefulspark.checkpoint import catalog, verify
from statefulspark.cli import main
from statefulspark.contract import config, layout
from statefulspark.contract.manifest import Manifest, SnapshotFormat

pytestmark = [pytest.mark.spark, pytest.mark.s3]
_JOB = Path(__file__).with_name("counting_job.py")


def test_a158_a_savepoint_is_native_unless_it_is_asked_for_as_canonical(
    s3: S3Server, s3_bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(config.ENV_TOKEN, driverprocess.TOKEN)
    root, output, port = f"s3://{s3_bucket}/state", tmp_path / "output", processes.free_port()
    output.mkdir()
    store = storage.open_store(f"{root}/default/counting", s3.options())

    with driverprocess.running(
        _JOB,
        s3,
        root,
        tmp_path,
        "--parameter",
        f"output={output}",
        "--api-port",
        str(port),
        "--checkpoint-interval",
        "1d",
    ) as driver:
        driver.until(lambda: len(list(output.glob("*.json"))) >= 3, "it has computed three batches")
        for name, *chosen in (["plain"], ["parquet", "--format", "canonical"]):
            url = f"http://127.0.0.1:{port}"
            code = main.main(["savepoint", "create", "--url", url, "--name", name, *chosen])
            assert code == 0, driver.log.read_text()[-3000:]

    savepoints = (catalog.read_manifest(store, ref.folder) for ref in catalog.list_snapshots(store))
    by_name = {manifest.savepoint_name: manifest for manifest in savepoints}
    plain, parquet = by_name["plain"], by_name["parquet"]
    assert (plain.format, has_parquet(plain)) == (SnapshotFormat.NATIVE, False)
    assert (parquet.format, has_parquet(parquet)) == (SnapshotFormat.CANONICAL, True)
    for manifest in (plain, parquet):
        assert verify.verify(store, manifest, root=layout.savepoint(manifest.id, manifest.savepoint_name), deep=True).ok


def has_parquet(manifest: Manifest) -> bool:
    return any(file.path.endswith(".parquet") for query in manifest.queries for file in query.files)
