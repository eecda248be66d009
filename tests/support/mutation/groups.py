"""Which modules are changed, and which tests have to notice: a table, smallest tests first.

A group's tests are those of its own rules. Tests that reach them through storage or a whole driver would notice more, and
would prove less: a rule that only they hold is not written down anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Group:
    """Modules that are checked together.

    Attributes:
        name: As in `make mutants GROUPS=name`, and of the file of survivors.
        modules: Files below the two source folders; `*` stands for any name.
        tests: Files or folders below `tests/`.
    """

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]


def _room(room: str, *names: str) -> tuple[str, ...]:
    return tuple(f"statefulspark/{room}/{name}.py" for name in names)


def _rules(*names: str) -> tuple[str, ...]:
    return tuple(f"statefulspark_operator/lifecycle/rules/{name}.py" for name in names)


def _lifecycle(*names: str) -> tuple[str, ...]:
    return tuple(f"statefulspark_operator/lifecycle/{name}.py" for name in names)


def _unit(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"unit/{folder}/test_{name}.py" for name in names)


_DECISIONS = ("golden/operator/test_decisions.py", *_unit("operator", "rules"))
GROUPS = (
    Group(
        "coordinator",
        _room("coordinator", "machine", "model"),
        ("unit/coordinator",),
    ),
    Group("statistics", _room("coordinator", "stats"), _unit("coordinator", "stats", "stats_counts")),
    Group("start", _room("recovery", "plan"), _unit("recovery", "plan", "plan_choices", "plan_refusals", "uids")),
    Group("carry", _room("recovery", "ahead", "copies"), _unit("recovery", "ahead", "copies")),
    Group("lineage", _room("checkpoint", "state_files"), _unit("checkpoint", "state_files")),
    Group(
        "evolution",
        (
            *_room("evolution", "comparison", "definitions", "keyed_states", "parallelism", "sources"),
            *_room("checkpoint", "plans"),
        ),
        (
            *_unit("evolution", "comparison", "definitions", "keyed_states", "parallelism"),
            *_unit("recovery", "uids"),
        ),
    ),
    Group("retention", _room("retention", "rules"), _unit("retention", "rules")),
    Group("packs", _room("packs", "names", "window"), _unit("packs", "names", "window")),
    Group("keygroups", _room("state", "keygroups"), _unit("state", "keygroup_borders", "keygroups", "spark_hashes")),
    Group(
        "expiry",
        _room("state", "ttl", "timers"),
        _unit("state", "expiry_rules", "timers", "ttl"),
    ),
    Group(
        "columns",
        _room("state", "merging", "timerindex", "views"),
        _unit("state", "columns", "expired_columns", "resting_views", "timers_in_views", "views"),
    ),
    Group(
        "redistribution",
        _room("operatorstate", "redistribution"),
        _unit("operatorstate", "redistribution", "subtasks"),
    ),
    Group(
        "contract",
        _room("contract", "base", "config", "manifest"),
        (*_unit("contract", "contract", "documents", "settings"), *_unit("coordinator", "retaining")),
    ),
    Group(
        "declarations",
        _room("state", "kinds", "evolution"),
        _unit("state", "evolution", "resolutions"),
    ),
    Group("rewrite", _room("evolution", "rewrite"), _unit("evolution", "rewrite")),
    Group("sizing", _room("sizing", "layout", "limits", "objects", "times"), ("unit/sizing",)),
    Group("operator-ends", _rules("failure"), _DECISIONS),
    Group("operator-starts", _rules("start"), _DECISIONS),
    Group("operator-changes", _rules("operation", "progress", "upgrade"), _DECISIONS),
    Group("operator-deletions", _rules("deletion", "preconditions"), _DECISIONS),
    Group("operator-handovers", (*_rules("rollback", "standby"), *_lifecycle("going_back")), _DECISIONS),
    Group("operator-facts", _lifecycle("steps", "upgrade_facts"), _DECISIONS),
    Group("operator-health", _lifecycle("health", "history"), _DECISIONS),
    Group(
        "operator-decisions",
        _lifecycle("backoff", "decide"),
        (*_DECISIONS, *_unit("operator", "parts")),
    ),
)

FAST = ("coordinator", "start", "lineage", "packs")
"""What CI runs: where an unproven rule loses data, and little enough to run each time."""


def named(names: tuple[str, ...]) -> tuple[Group, ...]:
    """Return the groups of these names: all without one; `fast` stands for those of CI.

    Raises:
        SystemExit: A name is not known.
    """
    wanted = tuple(one for name in names for one in (FAST if name == "fast" else (name,)))
    known = {group.name: group for group in GROUPS}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"{', '.join(unknown)}: no such group; there are: fast, {', '.join(known)}.")
    return tuple(known[name] for name in wanted) or GROUPS
