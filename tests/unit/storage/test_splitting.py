"""Where a large folder is split: evenly, and so that the parts make the whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from statefulspark.storage import splitting
from statefulspark.storage.splitting import Part, SplitPoints

KEYS = [f"a/{number:05}" for number in range(20_000)]


def learned(keys: list[str] = KEYS, folder: str = "a/", *, is_sorted: bool = False) -> SplitPoints:
    points = SplitPoints(is_sorted=is_sorted)
    points.learn("bucket", folder, len(keys), keys.__getitem__)
    return points


@given(st.lists(st.text("abc/", max_size=4), max_size=40), st.lists(st.text("abc/", min_size=1, max_size=4)), st.data())
def test_each_key_behind_the_first_one_is_in_one_part(points: list[str], keys: list[str], data: st.DataObject) -> None:
    after = data.draw(st.sampled_from(["", *points]))
    parts = splitting.parts(points, after=after)

    for key in keys:
        owners = [part for part in parts if part.after < key and (part.until is None or key <= part.until)]
        assert len(owners) == (key > after)
    assert len(parts) <= splitting.MOST_PARTS


def test_no_split_points_make_one_part() -> None:
    assert splitting.parts([], after="a/7") == (Part("a/7", None),)


def test_a_large_folder_is_split_evenly() -> None:
    points = learned().of("bucket", "a/")

    assert points == ("a/04000", "a/08000", "a/12000", "a/16000")


def test_a_small_folder_is_not_split() -> None:
    assert learned(KEYS[:7999]).of("bucket", "a/") == ()


def test_a_folder_is_split_by_what_is_known_of_the_folder_around_it() -> None:
    points = learned(["a/1/x", *(f"a/2/{number:05}" for number in range(20_000))])

    assert points.of("bucket", "a/1/") == ()
    assert len(points.of("bucket", "a/2/")) == 4
    assert points.of("another", "a/2/") == ()


def test_what_a_newer_listing_says_counts() -> None:
    points = learned()
    points.learn("bucket", "a/", 10, KEYS.__getitem__)

    assert points.of("bucket", "a/") == ()


def test_a_bucket_whose_listings_are_not_sorted_is_split_no_more() -> None:
    points = learned(is_sorted=True)
    points.give_up("bucket")

    assert (points.of("bucket", "a/"), points.can_split("bucket"), points.can_split_unseen("bucket")) == (
        (),
        False,
        False,
    )


def test_directory_buckets_are_never_split() -> None:
    points = SplitPoints(is_sorted=True)

    assert points.can_split_unseen("state")
    assert not points.can_split("state--use1-az4--x-s3")


def test_few_folders_are_remembered() -> None:
    points = SplitPoints(is_sorted=False)
    for number in range(1000):
        points.learn("bucket", f"{number}/", 8000, lambda at, number=number: f"{number}/{at:05}")  # type: ignore[misc]

    assert (points.of("bucket", "0/"), points.of("bucket", "999/")) == ((), ("999/04000",))
