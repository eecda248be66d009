"""Matches sources by name with the lines of the offset log and the folders below `sources/`. Pure.

A name is given by the user (`ss.named_source(df, uid="clicks")`) or generated from what the source reads. A stream that is
used twice in a plan has two lines with one name and one folder.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence

from statefulspark import errors
from statefulspark.checkpoint import plans
from statefulspark.contract.manifest import QueryEntry, SourceEntry

_ADVICE = 'Name each of them with ss.named_source(df, uid="..."); the old names are the ones above.'


def match(query: QueryEntry, planned: plans.PlannedQuery) -> tuple[int | None, ...]:
    """Find the old line for each source of a plan.

    A source keeps its position if its name is the same; else if its description is the same; else if it is the only
    remaining one of its format, so that a source with other options is still the same source. All others are new.

    Args:
        query: The restored query.
        planned: The query as it would run.

    Returns:
        An index into the old lines per line of the plan; None starts where the source's options say.

    Raises:
        SpecRejectedError: `SourcesAmbiguous`.
    """
    old, new = query.sources, planned.source_entries
    if not old:
        # The snapshot has no names: a match is possible only if the number is unchanged.
        if not query.offsets or len(query.offsets) == len(new):
            return tuple(range(len(query.offsets or new)))
        raise errors.SpecRejectedError(
            "SourcesAmbiguous",
            f"Query {query.uid!r} had {len(query.offsets)} sources and has {len(new)} now "
            f"({', '.join(source.name for source in new)}), and the snapshot does not name them. Start the "
            "unchanged job once, so that the next snapshot names them, then change it.",
        )
    if [source.name for source in old] == [source.name for source in new]:
        return tuple(range(len(new)))
    _require_distinguishable(query, old, new)
    _require_same_position_of_duplicates(query)
    old_names = _relations(old, new)
    first = {source.name: line for line, source in reversed([*enumerate(old)])}
    return tuple(first[old_names[source.name]] if source.name in old_names else None for source in new)


def dropped(query: QueryEntry, lines: Sequence[int | None]) -> tuple[SourceEntry, ...]:
    """Return the sources of a snapshot from which no line of the plan continues."""
    continued = {query.sources[line].name for line in lines if line is not None and query.sources}
    return tuple({source.name: source for source in query.sources if source.name not in continued}.values())


def logs(query: QueryEntry, planned: plans.PlannedQuery, lines: Sequence[int | None]) -> Mapping[int, int]:
    """Return the new folder below `sources/` by the old one, for sources that are kept."""
    new = planned.source_entries
    return {
        query.sources[line].log: new[index].log
        for index, line in enumerate(lines)
        if line is not None and query.sources
    }


def require_distinct(planned: plans.PlannedQuery) -> None:
    """Refuse the same name for different sources.

    Raises:
        SpecRejectedError: `SourceNameTaken`.
    """
    seen: dict[str, str] = {}
    for source in planned.sources:
        if source.given_name is None:
            continue
        other = seen.setdefault(source.given_name, source.description)
        if other != source.description:
            raise errors.SpecRejectedError(
                "SourceNameTaken",
                f"Two sources of query {planned.uid!r} have the name {source.given_name!r}: {other} and "
                f"{source.description}. Positions are matched by name, so give each source its own.",
            )


def _require_distinguishable(query: QueryEntry, old: Sequence[SourceEntry], new: Sequence[SourceEntry]) -> None:
    """Refuse a change in the number of sources with the same description."""
    before, after = _kinds(old), _kinds(new)
    for description, count in before.items():
        now = after.get(description, 0)
        has_duplicates = any(source.name.startswith(f"{description}#") for source in (*old, *new))
        if count != now and now > 0 and max(count, now) > 1 and has_duplicates:
            raise errors.SpecRejectedError(
                "SourcesAmbiguous",
                f"Query {query.uid!r} had {count} sources {description} and has {now} now, and they cannot be matched. "
                f"{_ADVICE}",
            )


def _require_same_position_of_duplicates(query: QueryEntry) -> None:
    """Refuse a changed plan if sources with the same description have different positions."""
    positions: dict[str, set[str]] = {}
    for source, line in zip(query.sources, query.offsets, strict=False):
        if _is_unnamed(source):
            positions.setdefault(source.description, set()).add(line)
    for description, lines in positions.items():
        if len(lines) > 1:
            raise errors.SpecRejectedError(
                "SourcesAmbiguous",
                f"The sources of query {query.uid!r} have changed, and it had several sources {description} at different "
                f"positions, which cannot be matched. Start the job with its former sources, each named with "
                'ss.named_source(df, uid="..."), then change them.',
            )


def _kinds(sources: Sequence[SourceEntry]) -> Counter[str]:
    relations = {source.name: source.description for source in sources if _is_unnamed(source)}
    return Counter(relations.values())


def _is_unnamed(source: SourceEntry) -> bool:
    return source.name == source.description or source.name.startswith(f"{source.description}#")


def _relations(old: Sequence[SourceEntry], new: Sequence[SourceEntry]) -> dict[str, str]:
    """Return the old name by the new one, for sources that are kept."""
    olds = {source.name: source for source in old}
    news = {source.name: source for source in new}
    matched = {name: name for name in news if name in olds}
    for attribute in (operator.attrgetter("description"), _format):
        unmatched_old = [source for name, source in olds.items() if name not in matched.values()]
        unmatched_new = [source for name, source in news.items() if name not in matched]
        for kind in dict.fromkeys(attribute(source) for source in unmatched_new):
            before = [source for source in unmatched_old if attribute(source) == kind]
            after = [source for source in unmatched_new if attribute(source) == kind]
            if len(before) == len(after) == 1:
                matched[after[0].name] = before[0].name
    return matched


def _format(source: SourceEntry) -> str:
    return source.description.partition("(")[0]
