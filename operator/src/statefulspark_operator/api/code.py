"""The part of the spec about code that is not in the image: where it is, and what identifies its content.

A checksum is always the SHA-256 of the content. That of an object is in the spec; that of a ConfigMap is computed by the
operator, which carries out the spec as if its user had written it there, so that another content is another revision. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from statefulspark_operator.api.base import ApiModel

CHECKSUM_PATTERN = r"^[0-9a-f]{64}$"
ARCHIVE = ".zip"
"""The extension of an object that holds several modules."""

ONE_SOURCE_MESSAGE = "job.source names exactly one place of the code: configMap or s3"
NO_FILE_MESSAGE = (
    "job.file is needed: the path of the job's Python file in the image; or name with job.source where else the code is"
)
ENTRY_MESSAGE = (
    "job.file is needed: with a zip, or a ConfigMap without a key, it says which of the files is the job's, for example "
    "flights.py"
)
INSIDE_MESSAGE = (
    "job.file is a path inside the code that job.source names, for example flights.py; it does not begin with '/' and has "
    "no '..'"
)
KEY_MESSAGE = "job.source.configMap.key names one Python file, for example flights.py; put a zip at an s3:// address"
URI_MESSAGE = "job.source.s3.uri must be the s3:// address of one file that ends with .py or .zip"

_KEY_RULE = "self.endsWith('.py')"
_URI_RULE = "self.matches('^s3://[a-z0-9][a-z0-9.-]+/.*[^/]$') && (self.endsWith('.py') || self.endsWith('.zip'))"
_NAMES_ONE = (
    "has(self.source.configMap) ? has(self.source.configMap.key) : "
    "has(self.source.s3) && self.source.s3.uri.endsWith('.py')"
)


def rules(*pairs: tuple[str, str]) -> dict[str, JsonValue]:
    """Attach CEL rules to a field.

    Args:
        pairs: Each rule, and the message that a user sees if it is violated.
    """
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


SOURCE_RULES = rules(("has(self.configMap) != has(self.s3)", ONE_SOURCE_MESSAGE))
JOB_RULES = rules(
    ("has(self.file) || has(self.source)", NO_FILE_MESSAGE),
    (f"!has(self.source) || has(self.file) || ({_NAMES_ONE})", ENTRY_MESSAGE),
    (
        "!has(self.source) || !has(self.file) || !self.file.matches('^/|(^|/)[.][.](/|$)')",
        INSIDE_MESSAGE,
    ),
)


class ConfigMapCode(ApiModel):
    """Python files in a ConfigMap of the resource's namespace, at most 1 MiB together."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the ConfigMap."""
    key: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        pattern=r"^[-._a-zA-Z0-9]+$",
        json_schema_extra=rules((_KEY_RULE, KEY_MESSAGE)),
    )
    """The key with the job's Python file; absent means that every key is a file, and `file` says which one is the job's."""
    sha256: str | None = Field(default=None, pattern=CHECKSUM_PATTERN)
    """Run only the content with this checksum, whatever the ConfigMap has now; absent means that another content is a new
    revision. Of a key it is what `sha256sum` prints."""

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if self.key is not None and not self.key.endswith(".py"):
            raise ValueError(KEY_MESSAGE)
        return self


class ObjectCode(ApiModel):
    """A Python file or a zip on S3, reached with the endpoint and the credentials of `storage`."""

    uri: str = Field(min_length=6, max_length=1024, json_schema_extra=rules((_URI_RULE, URI_MESSAGE)))
    """Its address: `s3://bucket/path/flights.py`, or a zip with several modules. At most 32 MiB."""
    sha256: str = Field(pattern=CHECKSUM_PATTERN)
    """Its checksum, as `sha256sum` prints it. Another content under the same address is refused until this changes."""

    @model_validator(mode="after")
    def _check_uri(self) -> Self:
        if not self.uri.startswith("s3://") or not self.uri.endswith((".py", ARCHIVE)):
            raise ValueError(URI_MESSAGE)
        return self

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.uri.rpartition("/")[2]


class CodeSource(ApiModel):
    """Where code is that is not in the image."""

    model_config = ConfigDict(json_schema_extra=SOURCE_RULES)

    config_map: ConfigMapCode | None = None
    """Python files in a ConfigMap. A change of its content is carried out like a change of this spec."""
    s3: ObjectCode | None = None
    """A Python file or a zip at an s3:// address, with its checksum."""

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.config_map is None) == (self.s3 is None):
            raise ValueError(ONE_SOURCE_MESSAGE)
        return self

    @property
    def only_file(self) -> str | None:
        """The name of the only file; None if there are several."""
        if self.config_map is not None:
            return self.config_map.key
        return self.s3.name if self.s3 is not None and not self.s3.name.endswith(ARCHIVE) else None


class JobSource(ApiModel):
    """The code of the job."""

    model_config = ConfigDict(json_schema_extra=JOB_RULES)

    file: str | None = Field(default=None, min_length=1, max_length=1024)
    """Path of the job's Python file: in the image, for example `/opt/job/flights.py`, or inside the code that `source`
    names. It may be left out if `source` names one file only."""
    source: CodeSource | None = None
    """Where the code is, if it is not in the image: then the image needs nothing but PySpark and this product."""
    parameters: dict[str, str] = Field(default_factory=dict, max_length=200)
    """Values for the job's own code, which reads them with `ctx.parameters`. Each is text: write `"8"`, not `8`."""

    @model_validator(mode="after")
    def _check_file(self) -> Self:
        problem = entry_problem(self.file, self.source)
        if problem is not None:
            raise ValueError(problem)
        return self

    @property
    def entry(self) -> str:
        """The path of the job's Python file, in the image or inside the code that `source` names."""
        return self.file or (self.source.only_file if self.source is not None else None) or ""


def entry_problem(file: str | None, source: CodeSource | None) -> str | None:
    """Return what is wrong with the path of a job's file; None if nothing is.

    Args:
        file: `job.file`.
        source: `job.source`.
    """
    if source is None:
        return NO_FILE_MESSAGE if file is None else None
    if file is None:
        return ENTRY_MESSAGE if source.only_file is None else None
    if source.only_file not in (None, file):
        return f"job.file is {file}, and job.source has no other file than {source.only_file}; leave job.file out"
    return INSIDE_MESSAGE if file.startswith("/") or ".." in file.split("/") else None


def checksum_of(files: Mapping[str, bytes], key: str | None) -> str:
    """Return the checksum of code.

    Args:
        files: Its files by name; it has the key.
        key: The only file that counts; None for all of them, and then the checksum is that of the lines which
            `sha256sum` prints of them, sorted by name.
    """
    if key is not None:
        return hashlib.sha256(files[key]).hexdigest()
    lines = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()
