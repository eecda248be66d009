"""What a process reads to make its first S3 client is read once, by the process that it is forked from."""

from __future__ import annotations

import subprocess
import sys

_FORKED = """
import os, sys
from statefulspark.storage import StorageOptions, fsspec_connection

fsspec_connection.read_ahead()
opened = []
sys.addaudithook(lambda event, of: opened.append(of[0]) if event == "open" and "botocore" in str(of[0]) else None)
child = os.fork()
if not child:
    options = StorageOptions(endpoint="http://127.0.0.1:1", access_key="nobody", secret_key="nothing")
    connection = fsspec_connection.connect(options)
    connection.quick.connect()
    connection.patient.connect()
    print(opened, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_forked_worker_does_not_read_the_description_of_s3_again() -> None:
    ended = subprocess.run([sys.executable, "-c", _FORKED], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.stdout, ended.stderr) == ("[]\n", "")
