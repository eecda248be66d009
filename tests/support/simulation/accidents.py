"""What happens around a job: stores and targets that go back, copies that awake, requests and manifests that come twice.

Each accident is a function with the name of what a page of docs/howto tells about, or warns of. A person's steps are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from faultrig import faults
from restores import a_restore
from simulation import invariants, remedies
from simulation.drivers import NAMED, QUERY
from simulation.purging import purge
from simulation.sites import OUTPUT, Content
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.rights import SinkRight
from statefulspark.sinks.files import orphans

if TYPE_CHECKING:
    from simulation.outside import Outside, OutsideDriver

ARRIVED = 0.7
"""How many of the last objects a replica has that gets them in any order."""
NOTHING = Content((), {}, {}, {})
ELSEWHERE = "docs/howto/restore-elsewhere.md"


def store_put_back(world: Outside, choice: int) -> None:
    """The job ends, its bucket gets the content of a backup, and the job starts again."""
    world.kill_all()
    world.put_state_back(world.moment(choice).state)
    world.started()


def store_failover_to_replica(world: Outside, choice: int) -> None:
    """The bucket is served by a replica that lacks the last objects, or some of them; nobody tells the drivers."""
    state, newest = dict(world.recent(choice).state), world.now().state
    if choice % 3 == 0:
        late = sorted(key for key, stored in newest.items() if state.get(key) is not stored)
        state |= {key: newest[key] for key in late if world.random.random() < ARRIVED}
    world.put_state_back(state)
    world.is_torn = True


def root_synced_over_itself(world: Outside, choice: int) -> None:
    """The job goes on elsewhere from a copy, target and all, and is synced back over what its root had by then."""
    world.kill_all()
    left = world.now().state
    world.put_both_back(world.recent(choice))
    world.started()
    world.live_on(choice % 3)
    world.kill_all()
    world.put_state_back({**left, **world.now().state})
    world.started()


def sink_failover(world: Outside, choice: int) -> None:
    """The target is served by a replica that lacks the last commits, rows and markers alike; drivers go on.

    The page tells to look for commits of a folder that were on their way; here they went to the old primary.
    """
    world.put_sink_back(world.recent(choice).content)
    world.drop_requests(f"{OUTPUT}/")


def sink_restored_to_backup(world: Outside, choice: int) -> None:
    """The job ends, its target gets the content of a backup, and the job starts again."""
    world.kill_all()
    world.let_requests_expire()
    world.put_sink_back(world.moment(choice).content)
    world.started()


def sink_loses_its_marker(world: Outside, choice: int) -> None:
    """A tool keeps the rows of the target, and not what the sink has written beside them.

    If the state went back to before it opened the sink, nothing tells whose the rows are, and they come again. So they do
    beside an older marker, which a request of an older driver would leave that arrives afterwards: none does.
    """
    world.drop_requests(f"{OUTPUT}/", "ledger")
    if not any("/output/" in key for key in world.site.bodies.own):
        world.allow_again(world.word("neither state nor target knows"), 0)
    world.target.markers.clear()
    world.shared.pop(f"{OUTPUT}/_sink.json", None)
    if choice % 2:
        world.kill_all()
        world.started()


def both_restored_to_same_moment(world: Outside, choice: int) -> None:
    """The job ends, its bucket and its target get the content of one moment, and the job starts again."""
    world.kill_all()
    world.put_both_back(world.moment(choice))
    world.promised = remedies.DISASTER
    world.started()


def savepoint_and_sink_restored_to_same_moment(world: Outside, choice: int) -> None:
    """Of one moment there are a savepoint of the running job and a backup of the target; the job starts from both."""
    world.live_on()
    world.run_batches(choice)
    savepoint, content = world.taken(), world.now().content
    if savepoint is None:
        return
    world.live_on(1 + choice % 3)
    world.kill_all()
    world.let_requests_expire()
    world.put_sink_back(content)
    word = world.word("both restored")
    world.allow_again(word, world.offset_of(savepoint))
    world.promised = remedies.DISASTER
    world.started(a_restore(snapshot=savepoint, nonce=word))


def second_site_awakes(world: Outside, choice: int) -> None:
    """The operator of another site starts the job from its copy of the bucket, while this one goes on."""
    world.up()
    world.open_site(world.recent(choice).state)
    world.started()


def sink_failover_between_two_sites(world: Outside, choice: int) -> None:
    """A site with fewer starts opens the target, which has failed over to before the last starts of the one that goes on."""
    world.live_on()
    before = world.now()
    for _ in range(1 + choice % 2):
        world.kill_all()
        world.started()
    world.open_site(before.state)
    world.put_sink_back(before.content)
    world.started()
    world.live_on()
    world.kill_all()
    world.site = world.sites[0]
    world.live_on(1 + choice % 2)


def take_over_left_in_two_manifests(world: Outside, choice: int) -> None:
    """Two sites say that they take over the sink, and each says so again whenever it starts.

    A job that does not run is mended first: the right would answer its refusal, too.
    """
    if not invariants.is_settled(world.tried()):
        return
    world.open_site(world.recent(choice).state)
    for turn in range(4):
        number = (turn + 1) % 2
        world.site = world.sites[number]
        world.take_over(f"take over at site {number}")
        world.live_on()


def manifest_applied_again(world: Outside, choice: int) -> None:
    """A restore stands in the manifest since long; the resource is made anew, and asks for it once more."""
    savepoint = world.taken()
    if savepoint is None:
        return
    world.live_on()
    word = world.word("old restore")
    old = a_restore(snapshot=savepoint, nonce=word)
    world.allow_again(word, world.offset_of(savepoint))
    world.kill_all()
    world.started(old)
    world.live_on(1 + choice % 2)
    _upgraded(world)
    shown = world.up().found.get(QUERY, 0)
    world.live_on()
    world.kill_all()
    world.require_beyond(world.started(old), shown)


def fresh_state_applied_again(world: Outside, choice: int) -> None:
    """Empty state was asked for long ago; the resource is made anew, and asks for it once more."""
    world.live_on()
    word = world.word("fresh state")
    fresh = a_restore(empty=True, nonce=word)
    world.allow_again(word, 0)
    world.kill_all()
    world.started(fresh)
    world.live_on(1 + choice % 2)
    _upgraded(world)
    shown = world.up().found.get(QUERY, 0)
    world.live_on()
    world.kill_all()
    world.require_beyond(world.started(fresh), shown)


def back_to_what_a_restore_left(world: Outside, choice: int) -> None:
    """Empty state was a mistake: some checkpoints later, within the hour, a person goes back to what it has left.

    The status of the driver says which checkpoint that is. The one with the highest number may be of an older life, where
    the root was copied over that. A driver that dies before storage has answered may have completed one more, which the list
    shows. A sink that shows each batch may have rows after that checkpoint, and then
    docs/sinks.md says that the start is refused. A folder may lack rows whose loss was accepted before, and a bucket objects
    of before its failover, and then docs/howto/disaster-recovery.md says so.
    """
    world.live_on()
    left = world.newest_checkpoint()
    if left not in world.checkpoints(world.area, world.name):
        return  # None was taken yet, or the bucket has lost it since.
    epoch = world.up().epoch
    world.kill_all()
    reference = f"checkpoint:{max([left, *world.checkpoints_of(epoch)])}"
    offset = world.offset_of(reference)
    is_refused = world.shows_beyond(offset) or bool(world.given_up) or world.is_torn
    mistake, regret = world.word("by mistake"), world.word("regretted")
    world.allow_again(mistake, 0)
    world.started(a_restore(empty=True, nonce=mistake))
    for _ in range(4 + choice % 3):
        world.live_on()
        world.clock.forward(100)
    world.kill_all()
    world.allow_again(regret, offset)
    world.promised = "" if is_refused else "docs/recovery.md"
    world.started(a_restore(snapshot=reference, nonce=regret))


def back_and_forward(world: Outside, choice: int) -> None:
    """A person goes back to an older checkpoint, and then on from a savepoint of the future that was left."""
    world.live_on(2)
    older = world.checkpoints(name=world.name)
    world.run_batches(choice)
    savepoint = world.taken()
    if savepoint is None or not older:
        return
    back, forward = f"checkpoint:{older[choice % len(older)]}", world.offset_of(savepoint)
    going_back, coming_forward = world.word("back"), world.word("forward")
    world.allow_again(going_back, world.offset_of(back))
    world.kill_all()
    world.started(a_restore(snapshot=back, nonce=going_back))
    world.live_on(1 + choice % 2)
    world.clock.forward(2 * 3600)
    world.kill_all()
    world.started()
    world.kill_all()
    world.allow_again(coming_forward, forward)
    world.started(a_restore(snapshot=savepoint, nonce=coming_forward))


def job_renamed_from_savepoint(world: Outside, choice: int) -> None:
    """A job of another name starts from a savepoint of this one, in front of the same target; this one is gone.

    The right to continue it gives up no row, so the start is refused if the target has lost some since the last commit.
    """
    world.run_batches(choice)
    savepoint = world.taken()
    if savepoint is None:
        return
    offset, is_whole = world.offset_of(savepoint), len(world.moments) == world.sound
    if choice % 3:
        world.live_on()
        is_whole = invariants.is_settled(world.last)
    world.kill_all()
    world.name = "orders"
    if choice % 2:
        world.allow_again("renamed", offset)
        world.promised = ELSEWHERE if is_whole else ""
    world.started(a_restore(snapshot=savepoint, nonce="renamed", repeat_output_of=NAMED if choice % 2 else ()))


def purge_with_zombie(world: Outside, choice: int) -> None:
    """A job is deleted with its state, a driver of a lost node sleeps; another of its name begins with an empty target."""
    sleeper = world.up()
    world.run_batches(choice)
    if choice % 2:
        world.faults.append(faults.Fault(faults.Kind.DELAY, 0, "/_metadata.json"))
        world.live_on()
    world.faults.append(faults.Fault(faults.Kind.FREEZE, choice % 3, "", ""))
    world.rest()
    world.faults.clear()
    sleeper.is_frozen = sleeper.is_disturbed = True
    world.person.spawn("purge", lambda: purge(world.person, "a", world.name))
    world.rest()
    world.let_requests_expire()
    world.put_sink_back(NOTHING)
    world.words.clear()
    world.restore = RestoreConfig()
    world.promised = "docs/recovery.md"
    world.started()
    world.live_on()
    sleeper.is_frozen = False
    world.rest()
    while world.network.late:
        world.network.deliver()


def state_went_back(world: Outside, choice: int) -> None:
    """The bucket is lost; a person restores a backup or a replica of it, and does what a refusal says."""
    newest = world.now()
    world.kill_all()
    world.put_state_back(dict((world.recent if choice % 2 else world.moment)(choice // 2).state))
    remedies.follow(world, choice // 3, newest)


def sink_went_back(world: Outside, choice: int) -> None:
    """The target is lost; a person restores a backup of it, and does what a refusal says.

    A copy of a folder may have data files of later batches than its commit files tell.
    """
    world.live_on(choice % 4)
    world.run_batches(choice)
    newest = world.now()
    world.kill_all()
    world.let_requests_expire()
    world.put_sink_back(world.moment(choice).content)
    if choice % 2:
        later = [key for key in sorted(newest.content.objects) if key.startswith(f"{OUTPUT}/{orphans.DATA}/")]
        world.shared |= {key: newest.content.objects[key] for key in later if world.random.random() < ARRIVED}
    remedies.follow(world, choice // 3, newest)


def both_sites_ran(world: Outside, choice: int) -> None:
    """Two sites have run; a person decides which one stays, stops the other, and does what a refusal says."""
    world.up()
    world.open_site(world.recent(choice).state)
    for number in (1, 0, 1)[: 1 + choice % 3]:
        world.site = world.sites[number]
        world.started()
        world.live_on()
    staying, leaving = world.sites if choice % 2 else reversed(world.sites)
    world.site, leaving.is_stopped = leaving, True
    world.kill_all()
    newest, world.site = world.now(), staying
    remedies.follow(world, choice // 6, newest)
    if world.restore.repeat_output_of and world.withdraws:
        staying.taken_over_at = world.last.found.get(QUERY, 0)


def sink_marker_lost(world: Outside, choice: int) -> None:
    """A tool removes what the sink has beside its rows; a person does what a refusal says, of a start or of a run."""
    world.live_on(choice % 2)
    world.run_batches(choice)
    running = world.up()
    newest = world.now()
    sink_loses_its_marker(world, 0)
    if choice % 4 < 2:
        world.live_on(2)
    ended = cast("OutsideDriver", running) if invariants.is_refused(running) else None
    world.kill_all()
    remedies.follow(world, choice // 4, newest, ended)


def state_deleted_output_kept(world: Outside, choice: int) -> None:
    """The state of a job is lost or deleted, its output is not; the job starts anew, and a person follows the refusal.

    If the marker is gone, too, nobody knows whose the rows are, and they come again.
    """
    if not world.target.markers and f"{OUTPUT}/_sink.json" not in world.shared:
        return
    world.run_batches(choice)
    _back_up(world)
    world.live_on(choice % 2)
    world.kill_all()
    newest = world.now()
    if choice % 4 < 2:
        kept = {key: stored for key, stored in newest.state.items() if key.startswith("backups/")}
        world.put_state_back(kept)
    else:
        world.restore = RestoreConfig()
        world.person.spawn("purge", lambda: purge(world.person, "a", world.name))
        world.rest()
    remedies.follow(world, choice // 4, newest)


def moved_job_started_at_old_place(world: Outside, choice: int) -> None:
    """A job was moved, and ran there; a person starts it at its old place after all, and follows the refusal."""
    world.live_on()
    world.stopped()
    world.kill_all()
    world.move_root("b", "flights")
    world.started()
    world.live_on(1 + choice % 2)
    _back_up(world)
    world.live_on(choice % 2)
    world.kill_all()
    newest = world.now()
    world.area = "a"
    remedies.follow(world, choice // 2, newest)


def whole_job_moved(world: Outside, choice: int) -> None:
    """The job stops, its folder is copied, and it goes on there, under another name by right; it may move back later.

    A job that does not run is mended first: the right would answer its refusal, too.
    """
    if not invariants.is_settled(world.tried()):
        return
    world.promised = ELSEWHERE
    for area, name in (("b", "flights" if choice % 3 else "orders"), ("a", "flights"))[: 1 + choice % 2]:
        world.live_on(choice % 3)
        world.stopped()
        world.kill_all()
        if name != world.name:
            world.take_the_sink(RestoreConfig(), SinkRight.REPEAT)
        world.move_root(area, name)
        world.started()


def request_twice(world: Outside, choice: int) -> None:
    """The network repeats requests, or loses the answers of those that were carried out."""
    places = ("ledger", "_commits/", "epochs/", "_metadata.json", "/commits/", "/prepared/")
    for number, place in enumerate(places):
        kind = faults.Kind.REPEAT if (choice + number) % 2 else faults.Kind.LOSE
        world.faults.append(faults.Fault(kind, (choice // 2 + number) % 3, place))
    world.live_on(2)


def commit_answered_as_conflict(world: Outside, choice: int) -> None:
    """Transactions of the target are carried out, and whatever is between reports that another writer was faster."""
    world.faults += [
        faults.Fault(faults.Kind.CONFLICT, after, "ledger") for after in (choice % 3, choice % 5, choice % 7)
    ]
    world.live_on(3)


def bucket_encrypted_anew(world: Outside, choice: int) -> None:
    """The bucket is encrypted in place with SSE-KMS, so no etag is an MD5; a driver suspects damage, and all is read."""
    world.promise("docs/recovery.md", world.tried())
    savepoint = world.taken()
    world.site.bucket.encrypt(tells_checksums=choice % 3 == 0)
    world.live_on(choice % 2)
    world.kill_all()
    world.suspect_damage()
    world.started()
    if savepoint is None or choice % 2:
        return
    world.live_on()
    world.kill_all()
    copy, offset = world.copied(savepoint), world.offset_of(savepoint)
    word = world.word("a copy of a savepoint")
    if world.shows_beyond(offset):
        world.promised = ""
    world.allow_again(word, offset)
    world.started(a_restore(snapshot=copy, nonce=word))


def _back_up(world: Outside) -> None:
    """Take a savepoint, and copy it to where nobody deletes it with the job."""
    savepoint = world.taken()
    world.backup = None if savepoint is None else world.copied(savepoint)


def _upgraded(world: Outside) -> None:
    """Upgrade in place: the driver stops with a savepoint, and the next one starts from it, as an operator does it."""
    savepoint = world.stopped()
    if savepoint is not None:
        world.started(a_restore(snapshot=savepoint, nonce=f"upgrade of {savepoint}"), stays=False)


Accident = Callable[["Outside", int], None]
ACCIDENTS: Mapping[str, Accident] = {
    accident.__name__: accident
    for accident in (
        store_put_back,
        store_failover_to_replica,
        root_synced_over_itself,
        sink_failover,
        sink_restored_to_backup,
        sink_loses_its_marker,
        both_restored_to_same_moment,
        savepoint_and_sink_restored_to_same_moment,
        second_site_awakes,
        sink_failover_between_two_sites,
        take_over_left_in_two_manifests,
        manifest_applied_again,
        fresh_state_applied_again,
        back_to_what_a_restore_left,
        back_and_forward,
        job_renamed_from_savepoint,
        purge_with_zombie,
        request_twice,
        state_went_back,
        sink_went_back,
        both_sites_ran,
        whole_job_moved,
        sink_marker_lost,
        state_deleted_output_kept,
        moved_job_started_at_old_place,
        commit_answered_as_conflict,
        bucket_encrypted_anew,
    )
}
"""Everything that happens, by its name."""
