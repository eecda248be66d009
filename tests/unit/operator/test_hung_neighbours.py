"""Drivers, stores and passes that hang hold up nobody but their own jobs."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from situations import NOW, a_pod
from statefulspark import errors
from statefulspark.contract.api import JobState, JobStatus
from statefulspark.storage import allowance
from statefulspark.testing.stores import MemoryStore
from statefulspark_operator.cluster import driver_api
from statefulspark_operator.cluster.driver_api import DriverAccess, HttpDriverApi
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.shares import Limits
from statefulspark_operator.cluster.storage_threads import LARGE, StorageThreads
from statefulspark_operator.engine import queue
from statefulspark_operator.lifecycle.situation import DriverPod, DriverSilent

ANSWER = JobStatus(job="flights", namespace="demo", state=JobState.RUNNING, epoch=1, started_at=NOW).to_json().encode()
WITHIN_S = 20.0
MANY = 100


def test_a_pass_does_not_wait_for_the_passes_of_other_jobs() -> None:
    async def scene() -> None:
        hung, done = asyncio.Event(), asyncio.Event()

        async def one_pass(key: JobKey) -> timedelta | None:
            await hung.wait() if key.name.startswith("hung") else done.set()
            return timedelta(hours=1)

        work = queue.WorkQueue(one_pass)
        for number in range(MANY):
            work.wake(JobKey("demo", f"hung-{number}"))
        work.wake(JobKey("demo", "well"))
        await asyncio.wait_for(done.wait(), WITHIN_S)
        await work.close()

    asyncio.run(scene())


@asynccontextmanager
async def driver_server(answer: bytes | None) -> AsyncIterator[str]:
    """Serve a driver's API that answers every request the same, or that takes connections and says nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            if answer is not None:
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode() + answer)
            else:
                await reader.read()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def pod(uid: str) -> DriverPod:
    return dataclasses.replace(a_pod(), uid=uid)


def test_more_drivers_that_hang_than_a_connector_has_room_for_keep_no_other_waiting() -> None:
    async def scene() -> JobStatus | DriverSilent:
        async with driver_server(None) as silent, driver_server(ANSWER) as answering:
            drivers = HttpDriverApi(lambda asked: answering if asked.uid == "well" else silent, timeout_s=3600)
            hung = [
                asyncio.create_task(drivers.status(pod(f"hung-{number}"), DriverAccess("token")))
                for number in range(2 * MANY)
            ]
            answer = await asyncio.wait_for(drivers.status(pod("well"), DriverAccess("token")), WITHIN_S)
            for task in hung:
                task.cancel()
            await asyncio.gather(*hung, return_exceptions=True)
            await drivers.close()
            return answer

    assert asyncio.run(scene()) == JobStatus.model_validate_json(ANSWER)


def test_drivers_that_did_not_answer_have_a_lane_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_api, "MOST_AT_ONCE", 1)
    monkeypatch.setattr(driver_api, "MOST_SILENT_AT_ONCE", 1)

    async def scene() -> JobStatus | DriverSilent:
        async with driver_server(None) as silent, driver_server(ANSWER) as answering:
            patient = HttpDriverApi(lambda asked: answering if asked.uid == "well" else silent, timeout_s=0.05)
            assert isinstance(await patient.status(pod("hung"), DriverAccess("token")), DriverSilent)
            patient._timeout_s = 3600  # From here on whoever waits for it waits for ever.
            again = asyncio.create_task(patient.status(pod("hung"), DriverAccess("token")))
            answer = await asyncio.wait_for(patient.status(pod("well"), DriverAccess("token")), WITHIN_S)
            again.cancel()
            await asyncio.gather(again, return_exceptions=True)
            await patient.close()
            return answer

    assert asyncio.run(scene()) == JobStatus.model_validate_json(ANSWER)


class Store:
    """Work on a store that hangs until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.begun: list[str] = []

    def hang(self, owner: str) -> str:
        self.begun.append(owner)
        self.released.wait(WITHIN_S)
        return owner


def test_a_store_that_hangs_takes_its_share_of_the_threads_and_no_more() -> None:
    async def scene() -> tuple[str, int]:
        store, threads = Store(), StorageThreads(timeout_s=WITHIN_S, limits=Limits(48, 6))
        hung = [
            asyncio.create_task(
                threads.run("away", f"demo/job-{number}", lambda number=number: store.hang(str(number)))
            )
            for number in range(MANY)
        ]
        answer = await asyncio.wait_for(threads.run("well", "demo/other", lambda: "read"), WITHIN_S)
        while len(store.begun) < 3:
            await asyncio.sleep(0)
        begun = len(store.begun)
        store.released.set()
        await asyncio.gather(*hung)
        return answer, begun

    assert asyncio.run(scene()) == ("read", 3)


@pytest.mark.parametrize("stores", [1, MANY], ids=["at the store of another", "at as many stores as it likes"])
def test_a_namespace_that_floods_storage_takes_its_share_of_the_threads_and_no_more(stores: int) -> None:
    async def scene() -> str:
        store, threads = Store(), StorageThreads(timeout_s=WITHIN_S)
        hung = [
            asyncio.create_task(
                threads.run(f"s3-{number % stores}", f"abusive/{number}", lambda number=number: store.hang(str(number)))
            )
            for number in range(MANY)
        ]
        while len(store.begun) < (8 if stores == 1 else 24):
            await asyncio.sleep(0)
        answer = await asyncio.wait_for(threads.run("s3-0", "honest/flights", lambda: "read"), WITHIN_S)
        store.released.set()
        await asyncio.gather(*hung)
        return answer

    assert asyncio.run(scene()) == "read"


def test_deletions_that_hang_leave_the_threads_for_starts_of_the_same_store_and_namespace() -> None:
    async def scene() -> tuple[list[str], int]:
        store, threads = Store(), StorageThreads(timeout_s=WITHIN_S)
        hung = [
            asyncio.create_task(
                threads.delete("s3", f"demo/gone-{number}", lambda number=number: store.hang(str(number)))
            )
            for number in range(8)
        ]
        while len(store.begun) < 2:
            await asyncio.sleep(0)
        starts = (threads.run("s3", f"demo/job-{number}", lambda: "read") for number in range(MANY))
        answers = await asyncio.wait_for(asyncio.gather(*starts), WITHIN_S)
        begun = len(store.begun)
        store.released.set()
        await asyncio.gather(*hung)
        return answers, begun

    assert asyncio.run(scene()) == (["read"] * MANY, 2)


class Large:
    """Work that holds a large object: how many of them did so at a time, and of how many namespaces."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.store.write("manifest", b" " * 2**21)
        self.lock = threading.Lock()
        self.holding: Counter[str] = Counter()
        self.most: list[Counter[str]] = []

    def read(self, namespace: str) -> int:
        size = len(self.store.read("manifest", most_bytes=2**24))
        with self.lock:
            self.holding[namespace] += 1
            self.most.append(+self.holding)
        time.sleep(0.01)
        with self.lock:
            self.holding[namespace] -= 1
        return size


def test_few_pieces_of_work_hold_large_objects_at_a_time_and_one_of_a_namespace() -> None:
    async def scene() -> Large:
        work, threads = Large(), StorageThreads(timeout_s=WITHIN_S)
        owners = [f"team-{number % 5}/job-{number}" for number in range(40)]
        sizes = await asyncio.gather(
            *(threads.run("s3", owner, lambda owner=owner: work.read(owner.partition("/")[0])) for owner in owners)
        )
        assert set(sizes) == {2**21}
        return work

    most = asyncio.run(scene()).most

    assert len(most) == 40
    assert max(max(holding.values()) for holding in most) == 1
    assert 1 < max(holding.total() for holding in most) <= LARGE.most


def test_one_deletion_at_a_time_holds_large_objects() -> None:
    async def scene() -> Large:
        work, threads = Large(), StorageThreads(timeout_s=WITHIN_S)
        owners = [f"team-{number % 5}/job-{number}" for number in range(20)]
        await asyncio.gather(
            *(threads.delete("s3", owner, lambda owner=owner: work.read(owner.partition("/")[0])) for owner in owners)
        )
        return work

    assert max(holding.total() for holding in asyncio.run(scene()).most) == 1


def test_work_that_lasts_too_long_gives_its_thread_back() -> None:
    store = MemoryStore()
    asked: list[float] = []

    def endless() -> None:
        while True:
            limits = allowance.current()
            assert limits is not None
            asked.append(limits.time_left_s(store.uri))
            time.sleep(0.01)

    async def scene() -> None:
        with pytest.raises(errors.TransientError, match="in time"):
            await StorageThreads(timeout_s=WITHIN_S, longest_s=0.2).run("s3", "demo/job", endless)

    asyncio.run(scene())
    assert len(asked) > 1


def test_work_that_was_given_up_is_waited_for_and_its_result_is_not_used() -> None:
    async def scene() -> tuple[str, list[str]]:
        store, impatient = Store(), StorageThreads(timeout_s=0.05)
        with pytest.raises(errors.TransientError, match="does not answer in time"):
            await impatient.run("s3", "flights", lambda: store.hang("first"))
        with pytest.raises(errors.TransientError, match="does not answer in time"):
            await impatient.run("s3", "flights", lambda: store.hang("second"))
        assert store.begun == ["first"], "one thing at a time for a job"
        store.released.set()
        impatient._reads.timeout_s = WITHIN_S
        return await impatient.run("s3", "flights", lambda: store.hang("third")), store.begun

    assert asyncio.run(scene()) == ("third", ["first", "third"])


def test_files_of_a_savepoint_that_are_being_deleted_hold_up_no_start_of_their_job() -> None:
    async def scene() -> tuple[str, list[str]]:
        store, threads = Store(), StorageThreads(timeout_s=0.05)
        with pytest.raises(errors.TransientError, match="does not answer in time"):
            await threads.delete_beside("s3", "demo/flights", lambda: store.hang("a savepoint"))
        with pytest.raises(errors.TransientError, match="does not answer in time"):
            await threads.delete_beside("s3", "demo/flights", lambda: store.hang("another one"))
        threads._reads.timeout_s = WITHIN_S
        read = await threads.run("s3", "demo/flights", lambda: "what a start needs")
        store.released.set()
        return read, store.begun

    assert asyncio.run(scene()) == ("what a start needs", ["a savepoint"])


def test_work_whose_waiter_is_gone_fails_in_silence() -> None:
    """When it ends, kopf raises what any task of the loop has raised: the operator ended with 1 and a stack on SIGTERM."""

    def fails() -> None:
        raise errors.TransientError("StorageUnreachable", "It is away.")

    async def scene() -> list[object]:
        threads, before = StorageThreads(), asyncio.all_tasks()
        with pytest.raises(errors.TransientError, match="It is away"):
            await threads.run("store", "job", fails)
        waiter = asyncio.create_task(threads.run("store", "job", fails))
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - before - {waiter}
        waiter.cancel()
        return await asyncio.gather(*left, return_exceptions=True)

    ended = asyncio.run(scene())

    assert len(ended) == 1
    assert not any(isinstance(result, BaseException) for result in ended)
