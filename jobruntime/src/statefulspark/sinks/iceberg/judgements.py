"""What each error of pyiceberg, and of the libraries that its catalogs call, means for the job. Pure.

The status of an HTTP answer counts before the class that pyiceberg makes of it, since one class stands for many of them. An
answer that is not the catalog's, for example the page of a proxy or of a login, says nothing of the table.

The catalogs of Glue and DynamoDB pass errors of botocore on, and those of a database errors of SQLAlchemy. Neither library
has to be installed, so their classes are known by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from statefulspark.judgement import Judgement, Remedy, table
from statefulspark.storage import judgements as storage_judgements

PYICEBERG = "pyiceberg.exceptions"
BOTOCORE = "botocore.exceptions"
SQLALCHEMY = "sqlalchemy.exc"
_BUILTIN = (OSError, ValueError, NotImplementedError)
"""What pyiceberg raises itself for files and answers, beside the classes of its own."""
_REACH = Judgement(Remedy.WAIT, "waits until the catalog and the table's files can be reached")
_BUSY = Judgement(Remedy.WAIT, "waits, since the catalog limits how often it is asked")
_OUTAGE = Judgement(Remedy.WAIT, "waits until the catalog works again; look into its log")
_OF_PROXY = Judgement(
    Remedy.WAIT,
    "waits until the catalog itself answers: this is the answer of something before it, a proxy or a page for logging in; "
    "check the catalog's uri if it stays so",
)
_DATABASE = Judgement(
    Remedy.WAIT,
    "waits until the catalog's database can be reached; check its uri, user and password if it stays so",
)
_RACE = Judgement(Remedy.LOST_RACE, "another writer committed at the same time; it is tried again")
_LOGIN = Judgement(Remedy.CREDENTIALS, "check credential, token and scope in the catalog's properties")
_FILES = Judgement(Remedy.CREDENTIALS, "check the credentials of the table's files, and their rights on its bucket")
_RIGHTS = Judgement(Remedy.RIGHTS, "give the catalog's user the right to read and change the table")
_TABLE = Judgement(Remedy.PERSON, "create the table, or correct its name or the catalog's uri")
_REQUEST = Judgement(
    Remedy.PERSON, "correct the catalog's properties, or the table; the catalog does not take the request"
)
_CONTENT = Judgement(Remedy.PERSON, "correct what the message names: the rows, the table or the catalog's properties")
_INSTALL = Judgement(Remedy.PERSON, "install what the message names")
_URI = Judgement(Remedy.PERSON, "correct the catalog's uri")

CLASSES = table(
    (_BUSY, "TooManyRequestsError"),
    (_OUTAGE, "ServerError ServiceUnavailableError CommitStateUnknownException DynamoDbError GenericDynamoDbError"),
    (_REACH, "SignError ResolveError"),
    (_RACE, "CommitFailedException ValidationException ConditionalCheckFailedException WaitingForLockException"),
    (_LOGIN, "UnauthorizedError AuthorizationExpiredError OAuthError"),
    (_RIGHTS, "ForbiddenError"),
    (_TABLE, "NoSuchTableError NoSuchIcebergTableError NoSuchNamespaceError NoSuchIdentifierError NoSuchViewError"),
    (_INSTALL, "NotInstalledError"),
    (
        _REQUEST,
        """RESTError BadRequestError ValidationError NoSuchPropertyException NoSuchPlanTaskError TableAlreadyExistsError
        ViewAlreadyExistsError NamespaceAlreadyExistsError NamespaceNotEmptyError""",
    ),
    (_REACH, "OSError ConnectionError ConnectionRefusedError ConnectionResetError TimeoutError FileNotFoundError"),
    (_FILES, "PermissionError"),
    (_CONTENT, "ValueError NotImplementedError"),
)
"""The judgement of each class of `pyiceberg.exceptions`, and of those of Python that its files and answers raise."""

STATUSES = table(
    (_URI, "300 301 302 303 304 305 307 308"),
    (_REQUEST, "400 402 405 406 410 411 412 413 414 415 416 417 418 422 424 426 428 431 451"),
    (_LOGIN, "401 419"),
    (_RIGHTS, "403"),
    (_TABLE, "404"),
    (_OF_PROXY, "407 421 511"),
    (_REACH, "408 502 504"),
    (_RACE, "409 423"),
    (_BUSY, "425 429"),
    (_OUTAGE, "500 503 505 506 507 508 510"),
    (_REQUEST, "501"),
)
"""The judgement of each status of an HTTP answer that is no success."""

CLOUD_CODES = table(
    (
        _BUSY,
        """Throttling ThrottlingException TooManyRequestsException RequestLimitExceeded LimitExceededException
        ProvisionedThroughputExceededException""",
    ),
    (
        _OUTAGE,
        """InternalServiceException OperationTimeoutException InternalServerError InternalFailure ServiceUnavailable
        ResourceNotReadyException ResourceInUseException FederationSourceRetryableException""",
    ),
    (
        _RACE,
        """ConcurrentModificationException ConditionalCheckFailedException ReplicatedWriteConflictException
        TransactionConflictException""",
    ),
    (
        _LOGIN,
        """ExpiredToken ExpiredTokenException UnrecognizedClientException InvalidClientTokenId InvalidSignatureException
        IncompleteSignature MissingAuthenticationToken SignatureDoesNotMatch""",
    ),
    (_RIGHTS, "AccessDenied AccessDeniedException NotAuthorized OptInRequired GlueEncryptionException"),
    (_TABLE, "EntityNotFoundException ResourceNotFoundException"),
    (
        _REQUEST,
        """InvalidInputException ValidationException ValidationError AlreadyExistsException
        ResourceNumberLimitExceededException ItemCollectionSizeLimitExceededException FederationSourceException""",
    ),
)
"""The judgement of each code with which Glue and DynamoDB answer what pyiceberg asks them."""

DATABASE_CLASSES = table(
    (_DATABASE, "OperationalError InterfaceError DisconnectionError InvalidatePoolError TimeoutError"),
    (_RACE, "IntegrityError"),
    (_INSTALL, "NoSuchModuleError NoDBAPILoaded"),
    (_REQUEST, "SQLAlchemyError"),
)
"""The judgement of classes of SQLAlchemy; one that is not here is judged as its base class."""

_BAD_REQUEST = 400
_THROTTLED = re.compile(r"Throttl|TooManyRequests|SlowDown|RequestLimitExceeded|Rate ?exceeded", re.IGNORECASE)
"""What catalogs of clouds say with status 400 when they are asked too often."""
_NOT_OF_CATALOG = re.compile(
    r"RESTError (400|404|409|410|412|422): (Could not decode json payload|Received unexpected JSON Payload)"
    r"|Error: RestError: (Bad Request|Not Found|Conflict|Gone)"
    r"|validation errors? for \w*Response"
)
"""What pyiceberg makes of a body that is not in the catalog's form, where the body would tell what is wrong."""


def judge_error(error: Exception, words: str) -> Judgement | None:
    """Return what an error means; None if it is not of another system.

    Args:
        error: The error.
        words: What it says.
    """
    names = {
        module: tuple(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == module)
        for module in (PYICEBERG, BOTOCORE, SQLALCHEMY, "builtins")
    }
    if names[BOTOCORE]:
        answer = getattr(error, "response", None)  # Of the system; a failure to reach it has none.
        if isinstance(answer, Mapping):
            code = str(answer.get("Error", {}).get("Code", ""))
            status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            if code or status:
                return judge_cloud(code, status)
        return storage_judgements.judge("", 0, names[BOTOCORE])
    if names[SQLALCHEMY]:
        return judge_database(names[SQLALCHEMY])
    if names[PYICEBERG] or isinstance(error, _BUILTIN):
        http_status = getattr(getattr(error.__cause__, "response", None), "status_code", None)
        class_name = (names[PYICEBERG] or names["builtins"])[0]
        return judge(class_name, http_status if isinstance(http_status, int) else None, words)
    return None


def judge(class_name: str, status: int | None, message: str) -> Judgement:
    """Return what an error means.

    Args:
        class_name: Its class in `pyiceberg.exceptions` or Python.
        status: Status of the HTTP answer that it stands for; None if it stands for none.
        message: What it says.
    """
    if status == _BAD_REQUEST and _THROTTLED.search(message):
        return _BUSY
    if class_name == "OAuthError":
        return _LOGIN
    if _NOT_OF_CATALOG.search(message):
        return _OF_PROXY
    return STATUSES.get(str(status)) or CLASSES.get(class_name, _REACH if status is None else _REQUEST)


def judge_cloud(code: str, status: int) -> Judgement:
    """Return what an answer of Glue or DynamoDB means.

    Args:
        code: Its code; empty if it has none.
        status: Its HTTP status; 0 if it is not known.
    """
    return CLOUD_CODES.get(code) or STATUSES.get(str(status), _REQUEST)


def judge_database(class_names: Iterable[str]) -> Judgement:
    """Return what an error of SQLAlchemy means.

    Args:
        class_names: Its class and the base classes, the most particular first.
    """
    return next(DATABASE_CLASSES[name] for name in class_names if name in DATABASE_CLASSES)
