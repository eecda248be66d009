"""`restore.repeatOutputOf` and `loseOutputOf`: a right is of one sink and counts once, however long manifests have it."""

from __future__ import annotations

import pytest
from restores import a_restore
from sinkcontexts import a_written_query
from sinkdrivers import NAMED, OUTPUT, QUERY, ROWS, Driver, visible
from snapshots import Clock, Job
from statefulspark import errors
from statefulspark.contract import config, flagnames, rights
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.rights import SinkRight
from statefulspark.driver.output.sink_rights import SinkRights
from statefulspark.driver.starting import sink_comparison, start_parts
from statefulspark.recovery import recovery
from statefulspark.storage import StorageOptions
from statefulspark.testing.stores import MemoryStore
from toldsinks import MarkedSink

HAS_RIGHT = RestoreConfig(repeat_output_of=NAMED)
OFFER = rights.described({SinkRight.REPEAT: NAMED})
AGAIN = RestoreConfig(repeat_output_of=NAMED, takes_over_as="2")
ONE, OTHER = "one", "other"
OPENS, REFUSED = True, False


@pytest.mark.parametrize(
    "starts",
    [
        pytest.param(
            [(ONE, HAS_RIGHT, OPENS), (OTHER, HAS_RIGHT, OPENS), (ONE, HAS_RIGHT, REFUSED), (OTHER, HAS_RIGHT, OPENS)],
            id="in turn",
        ),
        pytest.param(
            [(ONE, HAS_RIGHT, OPENS), (ONE, HAS_RIGHT, OPENS), (OTHER, HAS_RIGHT, OPENS), (ONE, HAS_RIGHT, REFUSED)],
            id="a right that its job has not needed",
        ),
        pytest.param(
            [
                (ONE, HAS_RIGHT, OPENS),
                (OTHER, HAS_RIGHT, OPENS),
                (ONE, AGAIN, OPENS),
                (OTHER, HAS_RIGHT, REFUSED),
                (OTHER, AGAIN, OPENS),
            ],
            id="given again under a new name",
        ),
        pytest.param([(ONE, RestoreConfig(), OPENS), (OTHER, RestoreConfig(), REFUSED)], id="without the right"),
    ],
)
def test_the_one_that_lost_a_sink_does_not_take_it_again(starts: list[tuple[str, RestoreConfig, bool]]) -> None:
    bucket, clock, sink = MemoryStore("memory://bucket"), Clock(), MarkedSink(visible="checkpoint")
    for root, restore, opens in starts:
        if opens:
            driver = Driver(bucket, clock, restore, sink=sink, root=root)
            driver.batch(1)
            driver.checkpoint()
            continue
        with pytest.raises(errors.SpecRejectedError) as raised:
            Driver(bucket, clock, restore, sink=sink, root=root)
        assert raised.value.reason == "SinkTaken"


@pytest.mark.parametrize("reason", ["SinkTaken", "SinkAhead", "SinkOfAnotherJob", "SinkOpenedElsewhere"])
@pytest.mark.parametrize(
    ("restore", "is_told"),
    [
        (HAS_RIGHT, True),
        (AGAIN, False),
        (RestoreConfig(), False),
        (RestoreConfig(repeat_output_of=("delays/log",)), False),
    ],
    ids=["used", "given again", "not given", "given for another sink"],
)
def test_a_refusal_tells_that_the_right_was_used(reason: str, restore: RestoreConfig, is_told: bool) -> None:
    driver = Driver(MemoryStore("memory://bucket"), Clock(), HAS_RIGHT)
    again = Driver(driver.job.bucket, Clock(), HAS_RIGHT)
    granted = SinkRights.read(restore, again.plan.carried_out)

    with pytest.raises(errors.SpecRejectedError) as raised, granted.explaining(NAMED[0]):
        raise errors.SpecRejectedError(reason, f"It is another's. Start with {OFFER}.")

    assert raised.value.reason == reason
    assert ("change restore.nonce to give it again" in raised.value.message) is is_told


@pytest.mark.parametrize("restore", [a_restore(snapshot="checkpoint:1", nonce="spring"), RestoreConfig()], ids=str)
def test_who_is_to_give_a_right_again_is_told_that_an_old_restore_would_be_carried_out_again(
    restore: RestoreConfig,
) -> None:
    """The restore stands in the manifest since long, and the operator does not tell the driver of it any more."""
    in_git = restore.model_copy(update={"repeat_output_of": NAMED})
    granted = SinkRights.read(in_git, ("spring", SinkRight.REPEAT.key(in_git.word, NAMED[0])))

    with pytest.raises(errors.SpecRejectedError) as raised, granted.explaining(NAMED[0]):
        raise errors.SpecRejectedError("SinkAhead", f"It is ahead. Start with {OFFER}.")

    assert raised.value.message.endswith("If it was carried out before, remove it first.")
    told = flagnames.name_flags(raised.value.message)
    assert "leave --restore-uri, --restore-checkpoint-id or --restore-empty out first" in told


def test_another_error_is_left_as_it_is() -> None:
    driver = Driver(MemoryStore("memory://bucket"), Clock(), HAS_RIGHT)
    granted = SinkRights.read(HAS_RIGHT, driver.job.boot(HAS_RIGHT).carried_out)

    with pytest.raises(errors.SpecRejectedError, match=r"It is not there\.$"), granted.explaining(NAMED[0]):
        raise errors.SpecRejectedError("TableMissing", "It is not there.")


def test_a_loss_that_was_accepted_once_is_not_accepted_again() -> None:
    """Whoever has left the right in the manifest is told that it was used, and does not lose other rows by it."""
    bucket, clock, sink = MemoryStore("memory://bucket"), Clock(), MarkedSink(visible="checkpoint")
    word = RestoreConfig(lose_output_of=NAMED)
    driver = Driver(bucket, clock, sink=sink)
    for restore in (word, RestoreConfig(lose_output_of=NAMED, takes_over_as="2")):
        kept = sink.marker
        for _ in range(4):
            driver.batch(2)
            driver.checkpoint()
        sink.marker = kept
        with pytest.raises(errors.StateUnknownError, match="SinkBehind") as refused:
            Driver(bucket, clock, RestoreConfig() if restore is word else word, sink=sink)
        assert ("used --restore-lose-output-of for delays/out before" in refused.value.message) is (restore is not word)
        driver = Driver(bucket, clock, restore, sink=sink)


@pytest.mark.parametrize("restore", [RestoreConfig(), RestoreConfig(lose_output_of=NAMED)], ids=["without", "with"])
def test_what_a_folder_loses_after_the_start_is_refused_whatever_was_accepted_before(restore: RestoreConfig) -> None:
    """Also a batch that the driver before has prepared: this one sends it again, and its file is gone."""
    bucket, clock = MemoryStore("memory://bucket"), Clock()
    first = Driver(bucket, clock)
    first.batch(2)
    first.checkpoint()
    first.batch(1)
    first.complete()
    driver = Driver(bucket, clock, restore)
    assert [value for value, _ in visible(bucket)] == list(range(3 * ROWS))
    lost = [info.key for info in bucket.list(OUTPUT) if "/00000002" in info.key]
    assert len(lost) == 2
    bucket.delete_many(lost)
    driver.batch(1)

    with pytest.raises(errors.StateUnknownError, match="StagedRowsMissing"):
        driver.checkpoint()


@pytest.mark.parametrize(
    ("carried_out", "used"),
    [
        pytest.param((), "", id="none was used"),
        pytest.param(("repeatOutputOf start a/b",), "repeat a/b", id="a name that is added later counts for itself"),
        pytest.param(("loseOutputOf start a/b",), "lose a/b", id="each kind counts for itself"),
        pytest.param(("repeatOutputOf start a/b", "repeatOutputOf start c/d"), "repeat a/b, repeat c/d", id="two were"),
        pytest.param(("repeatOutputOf other a/b",), "", id="used under another name"),
    ],
)
def test_each_right_counts_for_itself(carried_out: tuple[str, ...], used: str) -> None:
    given = {"repeat a/b": (SinkRight.REPEAT, "a/b"), "repeat c/d": (SinkRight.REPEAT, "c/d")}
    given["lose a/b"] = SinkRight.LOSE, "a/b"
    spent = {given[name] for name in used.split(", ") if name}

    read = SinkRights.read(RestoreConfig(repeat_output_of=("a/b", "c/d"), lose_output_of=("a/b",)), carried_out)

    assert (set(read.granted), set(read.spent)) == (set(given.values()) - spent, spent)


def test_a_right_that_stays_in_the_manifest_repeats_no_row_twice() -> None:
    """The operator asks for a restore of its own, under a name of its own, and the rights of the spec are the same."""
    bucket, clock, sink = MemoryStore("memory://bucket"), Clock(), MarkedSink()
    older = _shown_after_a_checkpoint(bucket, clock, sink)
    in_git = {"repeat_output_of": NAMED, "takes_over_as": "of the spec"}
    back = a_restore(snapshot=older, nonce="of the spec", **in_git)
    for _ in range(3):
        Driver(bucket, clock, back, sink=sink).batch(1)
    with pytest.raises(errors.SpecRejectedError) as raised:
        Driver(bucket, clock, a_restore(snapshot=older, nonce="of the operator", **in_git), sink=sink)

    assert raised.value.reason == "SinkAhead"
    assert "--restore-repeat-output-of delays/out --restore-again" in raised.value.message


def _shown_after_a_checkpoint(bucket: MemoryStore, clock: Clock, sink: MarkedSink) -> str:
    driver = Driver(bucket, clock, sink=sink)
    driver.batch(1)
    driver.show()
    checkpoint = driver.checkpoint()
    driver.batch(2)
    driver.show()
    return f"checkpoint:{checkpoint.id}"


def test_no_right_is_said_to_help_where_a_refusal_offers_none() -> None:
    granted = SinkRights.read(HAS_RIGHT, ())
    missing = errors.SpecRejectedError("PostgresTableMissing", "Could not find it; create it first.")
    ahead = errors.SpecRejectedError("SinkAhead", f"It is ahead. Start with {OFFER}.")

    assert granted.refusal({NAMED[0]: missing}) is missing
    both = granted.refusal({NAMED[0]: missing, "totals/log": ahead})
    assert both.message == f"{missing.message} {ahead.message}"


class TwoSinks:
    """A job with two sinks that have shown more than an older checkpoint contains, as far as it is to be restored."""

    def __init__(self) -> None:
        self.bucket, self.clock = MemoryStore("memory://bucket"), Clock()
        self.sinks = {"out": MarkedSink(), "log": MarkedSink()}
        self.older = _shown_after_a_checkpoint(self.bucket, self.clock, self.sinks["out"])
        self.sinks["log"].marker = self.sinks["out"].marker

    def compare(self, *sinks: str, restore: RestoreConfig | None = None, **words: object) -> None:
        """Compare as a start does before it writes anything, with rights for sinks."""
        asked = restore or a_restore(snapshot=self.older, nonce="back", repeat_output_of=sinks, **words)
        storage = config.StorageConfig(uri="s3://bucket")
        job_config = config.JobConfig(name="flights", storage=storage, restore=asked, owner_id="uid")
        store = self.bucket.child("default/flights")
        job = Job(self.clock).on(self.bucket)
        start_plan = recovery.plan_recovery(store, restore=asked, open_store=job.open_store)
        queries = {"out": QUERY, "log": "totals"}
        outputs = {queries[uid]: a_written_query(sink, uid) for uid, sink in self.sinks.items()}
        before = {info.key: info.etag for info in self.bucket.list("")}, dict(self.sinks)
        try:
            sink_comparison.require_contained(
                job_config, start_parts.JobRoot(store, StorageOptions()), start_plan, outputs
            )
        finally:
            assert ({info.key: info.etag for info in self.bucket.list("")}, self.sinks) == before


def test_every_sink_that_needs_the_right_is_named_at_once_as_it_can_be_pasted() -> None:
    with pytest.raises(errors.SpecRejectedError) as raised:
        TwoSinks().compare()

    assert raised.value.reason == "SinkAhead"
    assert raised.value.message.endswith(
        "To go on with all of these sinks, start with --restore-repeat-output-of delays/out --restore-repeat-output-of "
        "totals/log (restore.repeatOutputOf: [delays/out, totals/log])."
    )


@pytest.mark.parametrize("named", ["delays/out", "totals/log"])
def test_a_sink_that_is_not_named_is_refused_though_another_one_is(named: str) -> None:
    (other,) = {"delays/out", "totals/log"} - {named}

    with pytest.raises(errors.SpecRejectedError) as raised:
        TwoSinks().compare(named)

    assert f"{other.partition('/')[2]!r} cannot go on" in raised.value.message
    assert f"{named.partition('/')[2]!r} cannot go on" not in raised.value.message
    assert raised.value.message.endswith("(restore.repeatOutputOf: [delays/out, totals/log]).")


def test_with_a_right_for_each_nothing_is_refused() -> None:
    TwoSinks().compare("delays/out", "totals/log")


def test_a_name_of_no_sink_is_refused_with_the_sinks_that_there_are() -> None:
    with pytest.raises(errors.SpecRejectedError) as raised:
        TwoSinks().compare("delays/out", "totals/log", "totals/lag")

    assert raised.value.reason == "SinkUnknown"
    assert raised.value.message == (
        "restore.repeatOutputOf names totals/lag, and the job does not have such a sink. It has delays/out, totals/log. "
        "Correct the name, or remove it."
    )


def test_a_name_of_no_sink_does_not_stop_the_newest_state_from_being_compared() -> None:
    two = TwoSinks()
    with pytest.raises(errors.SpecRejectedError, match="names totals/lag"):
        two.compare(restore=RestoreConfig(repeat_output_of=("totals/lag",)))


def test_a_revision_that_the_rights_were_not_written_for_ignores_the_names_of_other_sinks() -> None:
    TwoSinks().compare("delays/out", "totals/log", "new/sink", of_another_revision=True)


def test_a_right_that_was_used_may_stay_when_its_sink_has_left_the_job() -> None:
    SinkRights.read(HAS_RIGHT, ("repeatOutputOf start delays/out",)).require_sinks(["totals/log"])


@pytest.mark.parametrize("name", ["out", "delays/", "/out", "delays/out/x", "Delays/out", "delays out"])
def test_what_names_no_sink_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(ValueError, match="write the uids of its query and of the sink, as in orders/table"):
        RestoreConfig(repeat_output_of=(name,))
