"""What each error of the systems around a job means for it: from the tables beside the code that calls their clients."""

from __future__ import annotations

from collections.abc import Mapping

from sitepages import markdown
from statefulspark.judgement import Judgement, Remedy
from statefulspark.sinks.iceberg import judgements as iceberg
from statefulspark.sinks.kafka import judgements as kafka
from statefulspark.sinks.postgres import judgements as postgres
from statefulspark.storage import judgements as storage
from statefulspark.storage import s3a_judgements
from statefulspark_operator.cluster import judgements as kubernetes

_TITLES = {
    Remedy.WAIT: "it passes",
    Remedy.LOST_RACE: "a lost race",
    Remedy.CREDENTIALS: "a person, or a rotation that is under way",
    Remedy.RIGHTS: "a person, who grants it",
    Remedy.PERSON: "a person",
}
_SYSTEMS: tuple[tuple[str, str, tuple[Mapping[str, Judgement], ...]], ...] = (
    (
        "PostgreSQL",
        "By SQLSTATE, or by the class of psycopg where there is none. A refused connection has no code, so its words count.",
        (postgres.CODES, postgres.CLASSES, {f"/{pattern}/": judgement for pattern, judgement in postgres.WORDS}),
    ),
    (
        "S3",
        "By the code of the server's answer, else by its status, else by the class of botocore. Nothing of it stalls a job: "
        "what a person has to change is tried again by each start, with growing waits.",
        (storage.CODES, storage.STATUSES, storage.CLASSES),
    ),
    (
        "S3A",
        "How Spark reaches S3: by the code of the server's answer, else by its status, both as above; else, or where it "
        "says more, by the class of Hadoop, of Amazon's client or of Java. Nothing of it stalls a job, as above.",
        (s3a_judgements.CLASSES,),
    ),
    (
        "Iceberg",
        "By the status of the catalog's answer, else by the class of pyiceberg; of Glue and DynamoDB by the code of the "
        "answer, and of a catalog in a database by the class of SQLAlchemy, or its base class.",
        (iceberg.STATUSES, iceberg.CLASSES, iceberg.CLOUD_CODES, iceberg.DATABASE_CLASSES),
    ),
    (
        "Kubernetes",
        "By the status of the API server's answer to the operator; without an answer it is waited for. Nothing of it stalls "
        "a job but what a person has to change in it.",
        (kubernetes.STATUSES,),
    ),
    ("Kafka", "By the name of the error; those of the client begin with an underscore.", (kafka.NAMES,)),
)


def page() -> str:
    """Return the page."""
    lines = markdown.head(
        "Errors of other systems",
        "What each error of a system around the job means. What **passes** is tried again, for as long as it takes while "
        "the job runs, and by the next start otherwise; the status says what is waited for. **Credentials** that are read "
        "from a file are asked for again for 3 minutes ([rotation](../sinks.md#credentials)). For everything else **a "
        "person** has to change something: the driver ends, and its message ends with the words below.",
    )
    for title, by, tables in _SYSTEMS:
        lines.extend((f"## {title}", "", by, ""))
        lines.extend(markdown.table(("who helps", "what is waited for, or what to do", "errors"), _rows(tables)))
    return markdown.finish(lines)


def _rows(tables: tuple[Mapping[str, Judgement], ...]) -> list[tuple[str, str, str]]:
    codes: dict[Judgement, list[str]] = {}
    for table in tables:
        for code, judgement in table.items():
            codes.setdefault(judgement, []).append(code)
    ordered = sorted(codes, key=lambda judgement: list(Remedy).index(judgement.remedy))
    return [
        (_TITLES[judgement.remedy], markdown.prose(judgement.advice), " ".join(map(markdown.code, codes[judgement])))
        for judgement in ordered
    ]
