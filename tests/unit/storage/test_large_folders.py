"""A large folder is listed in parts side by side: the same objects, in as many requests."""

from __future__ import annotations

import pytest
from listingserver import ListingServer
from statefulspark import errors
from statefulspark.storage import allowance, splitting

STATE = sorted(f"root/q/state/0/{partition}/{version}.changelog" for partition in range(40) for version in range(500))
KEYS = sorted([*STATE, *(f"root/q/commits/{batch}" for batch in range(300)), "root/q/metadata", "root/generation.json"])
PAGES = -(-len(KEYS) // 1000)


def listed(server: ListingServer, *, is_sorted: bool = True) -> list[str]:
    return [f"root/{info.key}" for info in server.store("root", is_sorted=is_sorted).list("")]


@pytest.fixture
def server() -> ListingServer:
    return ListingServer(KEYS, latency_s=0.002)


def test_a_folder_that_was_never_listed_is_split_by_the_names_in_it(server: ListingServer) -> None:
    assert listed(server) == KEYS

    names = [request for request in server.requests if request["Delimiter"]]
    assert len(names) <= 8
    assert len(server.requests) - len(names) <= PAGES + splitting.MOST_PARTS
    assert server.most_at_once > 4


def test_a_folder_that_was_listed_is_split_from_the_beginning(server: ListingServer) -> None:
    store = server.store("root", is_sorted=False)
    first = store.list("")
    assert (server.most_at_once, len(server.requests)) == (1, PAGES), "another server has to show that it is sorted"
    server.requests.clear()

    assert store.list("") == first
    assert server.most_at_once == len(KEYS) // 4000
    assert len(server.requests) <= PAGES + len(KEYS) // 4000


def test_split_points_of_a_folder_hold_for_folders_below_it_and_for_new_objects(server: ListingServer) -> None:
    store = server.store("root")
    store.list("")
    server.keys = sorted([*KEYS, "root/q/state/0/7/0.new", "root/z", "root/q/a"])
    del server.keys[5000:9000]
    server.requests.clear()

    below = [key for key in server.keys if key.startswith("root/q/state/")]
    assert [f"root/{info.key}" for info in store.list("q/state")] == below
    assert server.most_at_once > 1


def test_a_small_folder_costs_what_it_did() -> None:
    server = ListingServer(KEYS[:7500])

    assert (listed(server), len(server.requests), server.most_at_once) == (KEYS[:7500], 8, 1)


def test_a_server_that_is_not_sorted_is_listed_page_by_page() -> None:
    server = ListingServer([*KEYS[9000:], *KEYS[:9000]])
    store = server.store("root")

    assert [f"root/{info.key}" for info in store.list("")] == KEYS
    server.requests.clear()
    server.most_at_once = 0
    assert [f"root/{info.key}" for info in store.list("")] == KEYS
    assert (server.most_at_once, len(server.requests)) == (1, PAGES)


def test_a_server_that_does_not_know_where_to_begin_is_listed_page_by_page() -> None:
    server = ListingServer(KEYS, knows_start_after=False)
    store = server.store("root")

    assert [f"root/{info.key}" for info in store.list("")] == KEYS
    server.requests.clear()
    assert [f"root/{info.key}" for info in store.list("")] == KEYS
    assert len(server.requests) == PAGES


def test_an_allowance_holds_for_all_parts_together(server: ListingServer) -> None:
    store = server.store("root")
    store.list("")
    server.requests.clear()

    with allowance.holding(allowance.Allowance(1, 10_000, 1, 1e12)), pytest.raises(errors.StateUnknownError):
        store.list("")
    assert len(server.requests) < PAGES
