"""The console script: exit codes, and errors as one line."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest
import yaml
from statefulspark_operator.kubectl import main
from statefulspark_operator.kubectl.codes import PluginExit

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[4]
COMMAND = [sys.executable, "-m", "statefulspark_operator.kubectl.main"]


def a_kubeconfig(folder: Path, port: int = 1) -> Path:
    path = folder / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "demo"}}
    document = {
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "u", "user": {}}],
        "current-context": "here",
    }
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **document}))
    return path


def ended(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    sources = os.environ.get("PYTHONPATH", "")
    environment = {"KUBECONFIG": str(kubeconfig), "PATH": "/usr/bin", "PYTHONPATH": sources}
    return subprocess.run(
        [*COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_kubectl_finds_the_plugin_by_the_name_of_its_script() -> None:
    project = tomllib.loads((ROOT / "operator/pyproject.toml").read_text())["project"]

    assert project["scripts"]["kubectl-statefulspark"] == "statefulspark_operator.kubectl.main:main"
    assert project["scripts"]["kubectl_complete-statefulspark"] == "statefulspark_operator.kubectl.completion:main"


def test_an_api_server_that_does_not_answer_is_one_line_and_16(tmp_path: Path) -> None:
    done = ended(a_kubeconfig(tmp_path), "status", "flights")

    assert done.returncode == PluginExit.UNREACHABLE, done.stderr
    assert done.stderr.startswith("error: The API server does not answer (get statefulsparkjobs;")
    assert done.stderr.count("\n") == 1


def test_a_context_that_does_not_exist_lists_those_that_do(tmp_path: Path) -> None:
    done = ended(a_kubeconfig(tmp_path), "status", "flights", "--context", "there")

    assert (done.returncode, done.stderr) == (
        PluginExit.NOT_FOUND,
        "error: The kubeconfig has no context 'there'; there are: here.\n",
    )


def test_a_context_that_is_named_needs_no_current_one(tmp_path: Path) -> None:
    path = a_kubeconfig(tmp_path)
    document = yaml.safe_load(path.read_text())
    del document["current-context"]
    path.write_text(yaml.safe_dump(document))

    assert ended(path, "status", "flights", "--context", "here").returncode == PluginExit.UNREACHABLE
    assert ended(path, "status", "flights").returncode == PluginExit.REFUSED


@pytest.mark.parametrize(
    "text", ["hello", "a: [", "clusters: {c: {}}", "\0"], ids=["a word", "no YAML", "other fields", "bytes"]
)
def test_a_file_that_is_no_kubeconfig_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    done = ended(path, "status", "flights")

    assert (done.returncode, done.stderr.count("\n")) == (PluginExit.REFUSED, 1)
    assert done.stderr.startswith("error: There is no usable kubeconfig (")


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = a_kubeconfig(tmp_path)
    document = yaml.safe_load(path.read_text())
    document["clusters"][0]["cluster"] = {"server": "https://127.0.0.1:1", "certificate-authority": "/none/ca.crt"}
    path.write_text(yaml.safe_dump(document))

    done = ended(path, "status", "flights")

    assert (done.returncode, done.stderr.count("\n")) == (PluginExit.REFUSED, 1)
    assert "/none/ca.crt" in done.stderr


def test_a_page_of_a_proxy_is_no_answer(tmp_path: Path) -> None:
    """A proxy that wants a login answers 200 with a page, which ended in a stack of the JSON reader."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>Log in</html>")

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        done = ended(a_kubeconfig(tmp_path, proxy.server_port), "status", "flights")
        proxy.shutdown()

    assert (done.returncode, done.stderr.count("\n")) == (PluginExit.UNREACHABLE, 1)
    assert "Log in" in done.stderr


def test_a_namespace_is_no_path(tmp_path: Path) -> None:
    done = ended(a_kubeconfig(tmp_path), "status", "flights", "-n", "../kube-system")

    assert (done.returncode, done.stderr) == (
        PluginExit.REFUSED,
        "error: '../kube-system' cannot be the name of a Namespace.\n",
    )


def test_without_a_kubeconfig_the_error_says_what_to_set(tmp_path: Path) -> None:
    done = ended(tmp_path / "none", "status", "flights")

    assert done.returncode == PluginExit.REFUSED
    assert "There is no usable kubeconfig" in done.stderr
    assert "set KUBECONFIG to its path" in done.stderr


def test_help_needs_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--help"]) == 0
    assert "16 API server unreachable" in capsys.readouterr().out
