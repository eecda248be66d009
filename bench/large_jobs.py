"""What a job of many partitions costs its driver and its tasks: listings, packs, and the removal of unused files.

    python -m bench.large_jobs [--objects 50000 --latency-ms 80] [--json FILE]

Listings are asked of a server in memory that waits as long as a real one, and are the store's own; so are the parsers, the
decision what is unused, and the rule of packs. The removal of unused files is a day in a simulation: pace and rate are the
driver's own, the costs of an object are those that were measured just before, the latency of a store and its limit are
assumed. Beside each new way stands the one before.
"""

from __future__ import annotations

import asyncio
import functools
import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import aiobotocore.parsers
import botocore.session
from listingserver import ListingServer
from manifests import a_generation, a_manifest, a_query
from packwriting import a_name
from statefulspark.driver.snapshots import background
from statefulspark.packs import names, window
from statefulspark.packs.sizes import PartitionPacks
from statefulspark.recovery import generations
from statefulspark.retention import rules
from statefulspark.storage import fsspec_listing, splitting
from statefulspark.storage.port import PAGE, ObjectInfo
from statefulspark.testing import stores

from bench import machine

LIVE_S = 60.0
"""So long an object is needed in the simulation."""
GRACE_S = 60.0
CHECKPOINT_S = 10.0
DAY_S = 86_400
RATES = (20, 50, 100, 200, 500, 1000, 2000, 4000)
LIMITS = (7000.0, 20_000.0)
"""Objects that a store lets be made and deleted in a second."""
PACKS_OF_A_PARTITION = 20
_AT = datetime(2026, 1, 1, tzinfo=UTC)
_ID = "aaaaaaaa-0000-0000-0000-000000000000"


def keys(number: int, partitions: int = 200) -> list[str]:
    """Return names as state stores have them."""
    each = number // partitions
    folder = "default/job/generations/00000001/counts/state/0"
    return sorted(f"{folder}/{at % partitions}/{at // partitions}_{_ID}.changelog" for at in range(each * partitions))


def seconds_of(work: Callable[[], object], times: int = 3) -> float:
    """Return how much of a core some work takes, the least of several times."""
    took = []
    for _ in range(times):
        began_s = time.process_time()
        work()
        took.append(time.process_time() - began_s)
    return min(took)


def page_costs() -> dict[str, float]:
    """Return the seconds of a core that a page takes botocore's parser and ours."""
    contents = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>&quot;{at:032x}&quot;</ETag><Size>{at}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        for at, key in enumerate(keys(PAGE))
    )
    body = f'<?xml version="1.0"?><ListBucketResult>{contents}</ListBucketResult>'.encode()
    shape = botocore.session.get_session().get_service_model("s3").operation_model("ListObjectsV2").output_shape
    factories = {"before": aiobotocore.parsers.AioResponseParserFactory(), "now": fsspec_listing.ParserFactory()}

    def parse(factory: aiobotocore.parsers.AioResponseParserFactory) -> None:
        answer = {"body": body, "headers": {}, "status_code": 200, "context": {}}
        asyncio.run(factory.create_parser("rest-xml").parse(answer, shape))

    return {name: seconds_of(functools.partial(parse, factory)) for name, factory in factories.items()}


@dataclass(frozen=True)
class Listed:
    """One listing of a folder.

    Attributes:
        took_s: How long it took.
        requests: How many pages were asked for.
        bytes_of_a_key: Memory that is kept of an object.
    """

    took_s: float
    requests: int
    bytes_of_a_key: float


def list_folder(number: int, latency_s: float) -> dict[str, Listed]:
    """List a folder page by page, split by names, and split by the listing before."""
    server = ListingServer(keys(number), latency_s=latency_s)
    one_by_one, in_parts = server.store(is_sorted=False), server.store(is_sorted=True)
    in_parts.list("")
    listed = {}
    for name, store in {"before": one_by_one, "now, first": server.store(is_sorted=True), "now": in_parts}.items():
        server.requests.clear()
        began_s = time.perf_counter()
        store.list("")
        took_s, requests = time.perf_counter() - began_s, len(server.requests)
        server.requests.clear()
        tracemalloc.start()
        kept = store.list("")
        listed[name] = Listed(took_s, requests, tracemalloc.get_traced_memory()[0] / len(kept))
        tracemalloc.stop()
    return listed


def decision_cost(number: int = 20_000) -> float:
    """Return the seconds of a core for each object of the decision what is unused; half of them are."""
    names_ = [f"state/0/{at % 100}/{at // 100}_{_ID}.changelog" for at in range(number)]
    query = a_query(files=names_[number // 2 :], path="generations/00000001/counts")
    objects = tuple(ObjectInfo(f"{query.path}/{name}", 10, "etag", _AT) for name in names_)
    known = generations.Generations((a_generation(1),), 1)
    inventory = rules.Inventory((a_manifest(3, (query,), now=_AT, generation=1),), (), known, objects, {}, {})
    policy = rules.PrunePolicy(grace=timedelta(seconds=GRACE_S))

    def decide() -> None:
        rules.unnamed_snapshots(inventory, policy, _AT)
        rules.plan_prune(inventory, policy, _AT)

    return seconds_of(decide) / number


@dataclass(frozen=True)
class Costs:
    """The costs and limits of a simulated day.

    Attributes:
        listed_s: Seconds of the search for each object.
        deleted_per_s: Objects that are deleted in a second within the search; None if they are deleted beside it.
        limit_per_s: Requests of a second that the store takes: objects that are made and deleted.
    """

    listed_s: float
    deleted_per_s: float | None
    limit_per_s: float


@dataclass
class Day:
    """A day of a job that makes and leaves the same number of objects each second.

    Attributes:
        rate: How many.
        costs: What it costs.
        pace: When it searches for unused objects.
    """

    rate: int
    costs: Costs
    pace: background.Pace

    def __post_init__(self) -> None:
        self.made = self.gone = self.planned = 0.0
        self.most = 0.0
        self.searches: list[float] = []
        self.lane = background.Deletions()
        self.deletes_s = 0.0

    @property
    def objects(self) -> float:
        """How many there are."""
        return self.made - self.gone

    def live(self) -> float:
        """Return how many objects there have to be: those in use, and those within their grace time."""
        return self.rate * (LIVE_S + GRACE_S)

    def run(self) -> Day:
        """Run it second by second."""
        ends_s, unused = math.inf, 0.0
        for second in range(DAY_S):
            self.made += self.rate
            if second % CHECKPOINT_S == 0:
                self.pace.request()
            if second >= ends_s:
                self.pace.end(ends_s)
                ends_s = math.inf
                self._found(unused)
            if not self.lane.backlog and self.pace.begin_if_due(float(second)):
                unused = self._unused(second)
                took_s = self.objects * self.costs.listed_s
                if self.costs.deleted_per_s is not None:
                    took_s += (unused - self.gone) / self.costs.deleted_per_s
                ends_s = second + took_s
                self.searches.append(second)
            self._delete(float(second))
            if second >= DAY_S - 3600:
                self.most = max(self.most, self.objects)
        return self

    def _unused(self, second: int) -> float:
        """Return how many objects, from the first on, were marked by a search that is long enough ago."""
        marked = [at for at in self.searches[-50:] if at <= second - GRACE_S]
        return max(self.gone, self.rate * (marked[-1] - LIVE_S)) if marked else self.gone

    def _found(self, unused: float) -> None:
        if self.costs.deleted_per_s is not None:
            self.gone = max(self.gone, unused)
        else:
            self.lane.add([""] * int(unused - self.gone))

    def _delete(self, now_s: float) -> None:
        keys_ = self.lane.begin_if_due(now_s)
        if keys_:
            self.gone += len(keys_)
            self.lane.end(now_s + 0.5, refused=int(len(keys_) + self.rate > self.costs.limit_per_s))


def packs_of(partitions: int) -> list[names.PackName]:
    """Return the packs of a job after some batches in which each partition has written one."""
    return [
        a_name(batch, tail=0, newest=max(0, batch - 1), partition=at, partitions=partitions)
        for batch in range(PACKS_OF_A_PARTITION)
        for at in range(partitions)
    ]


def needed_before(packs: Sequence[names.PackName], *, partitions: int, batch: int) -> tuple[names.PackName, ...]:
    """Return what a batch needs as it was found before: all packs are looked through for each partition."""

    def tail_of(partition: int) -> int:
        own = [pack for pack in until if (pack.partitions, pack.partition) == (partitions, partition)]
        newest = max((pack.batch for pack in own), default=None)
        return min((pack.before.tail for pack in own if pack.batch == newest), default=0)

    until = [pack for pack in packs if pack.batch <= batch]
    tails = [tail_of(partition) for partition in range(partitions)]
    return tuple(
        pack for pack in until if pack.batch >= (tails[pack.partition] if pack.partitions == partitions else min(tails))
    )


class CountingStore(stores.MemoryStore):
    """A store that counts the pages of its listings."""

    pages_listed = 0

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        """See the port."""
        listed = super().list(prefix)
        self.pages_listed += max(1, -(-len(listed) // PAGE))
        return listed


def pages_of_a_batch(partitions: int) -> tuple[int, int]:
    """Return the pages that a batch lists in which each partition writes a pack: before, and now."""
    store, known = CountingStore(), [PartitionPacks() for _ in range(partitions)]
    for name in packs_of(partitions):
        store.write(names.key("mean", name.reference), b"")
    for partition, packs in enumerate(known):
        packs.sizes(store, "mean", f"{partitions}-{partition}/", ())
    before, store.pages_listed = store.pages_listed, 0
    store.list("packs/mean")
    before, store.pages_listed = 2 * partitions * store.pages_listed, 0
    for partition, packs in enumerate(known):
        name = a_name(PACKS_OF_A_PARTITION, partition=partition, partitions=partitions)
        packs.sizes(store, "mean", name.folder, ())
        store.write(names.key("mean", name.reference), b"")
        assert packs.shows(store, "mean", name)
    return before, store.pages_listed


def packs_costs(partitions: int) -> tuple[int, int, float]:
    """Return the pages that a batch lists before and now, and the time that the rule takes now against before."""
    packs, batch = packs_of(partitions), PACKS_OF_A_PARTITION
    before_s = seconds_of(lambda: needed_before(packs, partitions=partitions, batch=batch), 1)
    now_s = seconds_of(lambda: window.needed(packs, partitions=partitions, batch=batch))
    return *pages_of_a_batch(partitions), now_s / before_s


def main(arguments: list[str] | None = None) -> int:
    """Measure, simulate and print."""
    parser = machine.parser("large_jobs", __doc__)
    parser.add_argument("--objects", type=int, default=50_000, help="objects of the folder that is listed")
    parser.add_argument("--latency-ms", type=float, default=80.0, help="of a page; in the simulation it is 80")
    chosen = parser.parse_args(arguments)
    page = page_costs()
    less = page["before"] / page["now"]
    print(
        f"a page: botocore's parser {page['before'] * 1000:.1f} ms, ours {page['now'] * 1000:.1f}: {less:.1f} times less"
    )
    listed = list_folder(chosen.objects, chosen.latency_ms / 1000)
    machine.table(
        (
            f"listing of {chosen.objects} objects, {chosen.latency_ms:.0f} ms a page",
            "pages",
            "ratio of time",
            "bytes kept of an object",
        ),
        [
            (name, one.requests, f"{one.took_s / listed['before'].took_s:.2f}", f"{one.bytes_of_a_key:.0f}")
            for name, one in listed.items()
        ],
    )
    decided_s = decision_cost()
    print(f"decision what is unused: {decided_s * 1e6:.1f} us an object")
    own_s, page_s = page["now"] / PAGE + decided_s, 0.080 / PAGE
    before = Costs(own_s + page_s, 4000.0, math.inf)
    now = [Costs(own_s + page_s / splitting.MOST_PARTS, None, limit) for limit in LIMITS]
    simulated = {}
    for rate in RATES:
        old = Day(rate, before, background.Pace(longest_rest_s=math.inf)).run()
        new = [Day(rate, costs, background.Pace()).run() for costs in now]
        simulated[rate] = {
            "before": old.most / old.live(),
            **{f"now, {day.costs.limit_per_s:,.0f}/s": day.most / day.live() for day in new},
        }
    machine.table(
        ("objects made a second; objects / live", *simulated[RATES[0]]),
        [(rate, *(f"{ratio:.1f}" for ratio in day.values())) for rate, day in simulated.items()],
    )
    packed = {partitions: packs_costs(partitions) for partitions in (10, 100, 1000)}
    machine.table(
        ("partitions", "pages a batch before", "now", "what a batch needs, ratio of time"),
        [(number, before, now, f"{ratio:.4f}") for number, (before, now, ratio) in packed.items()],
    )
    listings = {name: vars(one) for name, one in listed.items()}
    machine.finish(chosen.json, {"page_s": page, "listings": listings, "days": simulated, "packs": packed})
    return 0


if __name__ == "__main__":
    sys.exit(main())
