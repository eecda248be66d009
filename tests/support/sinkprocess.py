"""A driver's part in a process of its own, so that it can be killed at any call that it makes, or be a zombie.

One process imports everything and then forks for each connection to its socket. A connection begins with an order, a line of
JSON, whose steps are taken one after the other:

- `{"open": EPOCH}`, `{"commit": TRANSACTION, "batch": N, "epoch": E}`, and `{"abort": ...}` alike;
- `{"say": WORD}`, and `{"wait": true}` for a line;
- `{"kill": NAME, "when": "before" | "after"}` arms a kill at the next call of a function of that name, Python or C;
- `{"stop": NAME, "when": ...}` alike arms a stop, after which SIGCONT goes on; the process says its id before.

What a process says last is `done`, the reason of the error that ended it, or `crashed:` with an error that is none of ours;
nothing if it was killed.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import socket
import sys
import threading
import traceback
from dataclasses import replace
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).parent))

import pyiceberg.catalog.sql
import pyiceberg.io.fsspec  # noqa: F401
import sinkcontexts
import sinkworlds
from statefulspark import errors
from statefulspark.sinks.iceberg import client as iceberg_client  # noqa: F401
from statefulspark.sinks.kafka import session as kafka_session  # noqa: F401
from statefulspark.sinks.postgres import client as postgres_client  # noqa: F401
from statefulspark.storage import fsspec_store  # noqa: F401

_EVENTS = {"before": ("call", "c_call"), "after": ("return", "c_return")}


def arm(name: str, when: str, number: signal.Signals) -> None:
    """Signal this process at the next call of a function, or at its return, by this thread or one that is started later."""
    python, native = _EVENTS[when]

    def look(frame: FrameType, event: str, argument: object) -> None:
        is_it = event == python and frame.f_code.co_name == name
        if is_it or (event == native and getattr(argument, "__name__", "") == name):
            threading.setprofile(None)
            sys.setprofile(None)
            os.kill(os.getpid(), number)

    threading.setprofile(look)
    sys.setprofile(look)


def take_steps(channel: socket.socket) -> None:
    """Take the steps of one order."""
    words = channel.makefile("r")
    order = json.loads(words.readline())
    sink, context = sinkworlds.build(order["recipe"]), sinkworlds.context_from(order["context"])
    for step in order["steps"]:
        epoch = step.get("epoch", context.epoch)
        there = sinkcontexts.by_epoch(replace(context, batch_id=step.get("batch", 0)), epoch)
        if "kill" in step:
            arm(step["kill"], step["when"], signal.SIGKILL)
        elif "stop" in step:
            channel.sendall(f"{os.getpid()}\n".encode())
            arm(step["stop"], step["when"], signal.SIGSTOP)
        elif "open" in step:
            sink.open(sinkcontexts.by_epoch(replace(context, epoch=step["open"]), step["open"]))
        elif "commit" in step:
            sink.commit(step["commit"].encode(), there)
        elif "abort" in step:
            sink.abort(step["abort"].encode(), there)
        elif "say" in step:
            channel.sendall(f"{step['say']}\n".encode())
        else:
            words.readline()


def answer(channel: socket.socket) -> None:
    """Serve one connection in this process and end it."""
    try:
        take_steps(channel)
        channel.sendall(b"done")
    except errors.StatefulSparkError as error:
        channel.sendall(error.reason.encode())
    except BaseException as error:  # noqa: BLE001 - whoever asked is told
        traceback.print_exc()
        channel.sendall(f"crashed: {error!r}".encode())
    finally:
        os._exit(0)


def main() -> None:
    """Fork for each connection until killed."""
    faulthandler.enable()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    while True:
        channel, _ = listener.accept()
        if os.fork() == 0:
            answer(channel)
        channel.close()


if __name__ == "__main__":
    main()
