"""What a driver's settings allow, at their limits, and when a wish to restore counts as fulfilled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError
from restores import a_restore
from statefulspark.contract import config

_NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "uri"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/prefiX/", "s3://bucket/prefiX"),
        ("s3://bucket/prefix//", "s3://bucket/prefix"),
        ("file:///tmp/state/", "file:///tmp/state"),
    ],
)
def test_a_place_for_state_is_named_without_slashes_at_its_end(given: str, uri: str) -> None:
    assert config.StorageConfig(uri=given).uri == uri


@pytest.mark.parametrize("uri", ["", "/tmp/state", "s3a://bucket", "hdfs://node/state", "bucket"])
def test_a_place_that_is_not_shared_storage_is_refused_with_what_was_given(uri: str) -> None:
    with pytest.raises(ValidationError, match=f"the storage uri '{uri}' must start with s3://"):
        config.StorageConfig(uri=uri)


@pytest.mark.parametrize("changes", [
    {"min_pause": timedelta(0)}, {"min_pause": timedelta(days=365)}, {"max_concurrent": 1}, {"tolerable_failures": 0},
    {"retention": {"count": 1}}, {"history_limit": 0}, {"history_limit": 10_000},
], ids=str)  # fmt: skip
def test_the_limits_of_checkpoint_settings_are_allowed(changes: dict[str, object]) -> None:
    """A.73, A.74, A.76, A.77."""
    allowed = config.CheckpointConfig.model_validate(changes)

    assert allowed.model_dump(include=set(changes), exclude_none=True) == changes


@pytest.mark.parametrize(
    "changes",
    [
        {"interval": timedelta(microseconds=9_999)},
        {"interval": timedelta(days=365, microseconds=1)},
        {"timeout": timedelta(days=365, microseconds=1)},
        {"min_pause": timedelta(microseconds=-1)},
        {"min_pause": timedelta(days=365, microseconds=1)},
        {"history_limit": -1},
        {"history_limit": 10_001},
    ],
    ids=str,
)
def test_what_lies_beyond_the_limits_is_refused(changes: dict[str, object]) -> None:
    """A.70, A.72, A.73."""
    with pytest.raises(ValidationError, match=next(iter(changes))):
        config.CheckpointConfig.model_validate(changes)


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_cannot_be_is_refused(port: int) -> None:
    with pytest.raises(ValidationError, match="api_port"):
        config.JobConfig(name="w", storage=config.StorageConfig(uri="s3://b"), api_port=port)


_ONCE = a_restore(snapshot="s3://b/sp")
_NAMED = a_restore(snapshot="s3://b/sp", nonce="nightly")


@pytest.mark.parametrize(
    ("wish", "done", "is_done"),
    [
        pytest.param(_ONCE, (), False, id="never done"),
        pytest.param(_ONCE, ("s3://b/sp",), True, id="done"),
        pytest.param(_ONCE, ("s3://b/sp", "s3://b/other"), True, id="done before another one"),
        pytest.param(_ONCE, ("s3://b/sp2",), False, id="another savepoint whose name begins alike"),
        pytest.param(_ONCE, ("s3://b/other",), False, id="another savepoint"),
        pytest.param(_NAMED, ("nightly",), True, id="done under its name"),
        pytest.param(_NAMED, ("s3://b/sp",), False, id="done before it had a name"),
        pytest.param(config.RestoreConfig(), (), False, id="nothing is asked for, nothing was done"),
        pytest.param(config.RestoreConfig(), ("None",), False, id="nothing is asked for"),
        pytest.param(_ONCE, (_ONCE.again(_NOON).once_key,), True, id="done once more"),
        pytest.param(
            _NAMED, (_NAMED.again(_NOON).once_key,), False, id="the savepoint was restored again, not the wish"
        ),
    ],
)
def test_a_wish_is_done_once(wish: config.RestoreConfig, done: tuple[str, ...], is_done: bool) -> None:
    assert wish.is_done(done) is is_done


@pytest.mark.parametrize("wish", [_ONCE, _NAMED, a_restore(empty=True)])
def test_a_wish_that_is_repeated_is_another_wish_for_the_same(wish: config.RestoreConfig) -> None:
    again = wish.again(_NOON)

    what = "fresh" if wish.starts_empty else "s3://b/sp"
    assert again == wish.model_copy(update={"nonce": f"{what} again at 2026-11-21T12:00:00+00:00"})
    assert not again.is_done([wish.once_key or ""])
    assert again.is_done([again.once_key or ""])
