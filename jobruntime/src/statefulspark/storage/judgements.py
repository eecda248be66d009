"""What each answer of an S3 server, and each error of the clients that ask it, means for a request. Pure.

The code of an answer counts before its status, since servers give several statuses to one code; the status counts before the
class, which is the same for all answers. What an absent object and a failed condition mean, the caller knows.
"""

from __future__ import annotations

from collections.abc import Iterable

from statefulspark.judgement import Judgement, Remedy, table

BUSY = Judgement(
    Remedy.WAIT, "the server refuses requests for a while, or is slow to take them, because it gets too many"
)
"""Such a request has not happened."""
REACH = Judgement(
    Remedy.WAIT, "check that the server runs, and that no firewall or NetworkPolicy keeps requests from it"
)
_ON_THE_WAY = Judgement(
    Remedy.WAIT, "something between the client and the server answers; check the proxy or ingress before it"
)
_CONFLICT = Judgement(Remedy.WAIT, "another request is changing the same object or bucket")
RACE = Judgement(Remedy.LOST_RACE, "another writer was first")
GONE = Judgement(Remedy.LOST_RACE, "the object is not there")
KEYS = Judgement(Remedy.CREDENTIALS, "check the access key and its rights on the bucket")
NO_KEYS = Judgement(Remedy.CREDENTIALS, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
BUCKET = Judgement(Remedy.PERSON, "create the bucket or correct the storage uri")
ARCHIVED = Judgement(Remedy.PERSON, "bring the object back from the archive, and keep lifecycle rules off this folder")
_CLOCK = Judgement(Remedy.PERSON, "set the clock of the node; it is not that of the server")
PLACE = Judgement(Remedy.PERSON, "correct region, endpoint, addressing and proxies of the storage")
_FULL = Judgement(Remedy.PERSON, "give the bucket or the account room")
SERVER = Judgement(Remedy.PERSON, "the server does not take this request; its version may be too old")
CLIENT = Judgement(Remedy.PERSON, "the object's state is unknown; report it with the log")

CODES = table(
    (
        BUSY,
        "SlowDown Throttling ThrottlingException TooManyRequests RequestLimitExceeded RequestTimeout ServiceUnavailable",
    ),
    (REACH, "InternalError IncompleteBody BadDigest"),
    (_ON_THE_WAY, "NotFound"),
    (_CONFLICT, "ConditionalRequestConflict OperationAborted RestoreAlreadyInProgress"),
    (RACE, "PreconditionFailed"),
    (GONE, "NoSuchKey NoSuchVersion NoSuchUpload"),
    (
        KEYS,
        """AccessDenied AccountProblem AllAccessDisabled ExpiredToken InvalidAccessKeyId InvalidSecurity InvalidToken
        NotSignedUp SignatureDoesNotMatch TokenRefreshRequired CredentialsNotSupported MissingSecurityElement
        MissingSecurityHeader XAdminUserNotFound""",
    ),
    (BUCKET, "NoSuchBucket InvalidBucketName"),
    (ARCHIVED, "InvalidObjectState ObjectNotInActiveTierError ObjectAlreadyInActiveTierError"),
    (_CLOCK, "RequestTimeTooSkewed"),
    (
        PLACE,
        """AuthorizationHeaderMalformed IllegalLocationConstraintException InvalidLocationConstraint InvalidAddressingHeader
        PermanentRedirect Redirect TemporaryRedirect CrossLocationLoggingProhibited""",
    ),
    (_FULL, "TooManyBuckets"),
    (
        SERVER,
        """InvalidRange NotImplemented MethodNotAllowed InvalidRequest InvalidArgument InvalidDigest InvalidPart
        InvalidPartOrder InvalidStorageClass InvalidURI KeyTooLongError EntityTooLarge EntityTooSmall MalformedXML
        MaxMessageLengthExceeded MetadataTooLarge MissingContentLength MissingRequestBodyError UnexpectedContent
        InvalidEncryptionAlgorithmError EncryptionTypeMismatch IdempotencyParameterMismatch UnsupportedMediaType
        InvalidWriteOffset TooManyParts InvalidPrefix""",
    ),
    (
        CLIENT,
        """AmbiguousGrantByEmailAddress AnnotationLimitExceeded AnnotationNameTooLong BucketAlreadyExists
        BucketAlreadyOwnedByYou BucketNotEmpty IllegalVersioningConfigurationException IncorrectNumberOfFilesInPostRequest
        InlineDataTooLarge InvalidAnnotationName InvalidBucketState InvalidPayer InvalidPolicyDocument InvalidSOAPRequest
        InvalidTargetBucketForLogging MalformedACLError MalformedPOSTRequest MaxPostPreDataLengthExceededError
        MissingAttachment NoLoggingStatusForKey NoSuchAnnotation NoSuchBucketPolicy NoSuchLifecycleConfiguration
        RequestIsNotMultiPartContent RequestTorrentOfBucketError UnresolvableGrantByEmailAddress UserKeyMustBeSpecified""",
    ),
)
"""The judgement of each code of S3."""

STATUSES = table(
    (BUSY, "429 503"),
    (REACH, "408 425 500 502 504 506 508 509"),
    (_ON_THE_WAY, "404 407 421 510 511"),
    (_CONFLICT, "409 423"),
    (RACE, "412"),
    (KEYS, "401 403"),
    (PLACE, "300 301 302 303 304 305 307 308"),
    (_FULL, "507"),
    (SERVER, "400 402 405 406 410 411 413 414 415 416 417 418 422 424 426 428 431 451 501 505"),
)
"""The judgement of each status of an answer without a code."""

CLASSES = table(
    (
        REACH,
        """HTTPClientError ConnectionError EndpointConnectionError SSLError ConnectionClosedError ReadTimeoutError
        ConnectTimeoutError ProxyConnectionError ResponseStreamingError ResponseParserError IncompleteReadError ChecksumError
        FlexibleChecksumError AwsChunkedWrapperError EventStreamError FSTimeoutError TimeoutError ClientConnectionError
        ClientPayloadError ClientResponseError InvalidURL""",
    ),
    (
        NO_KEYS,
        """NoCredentialsError PartialCredentialsError CredentialRetrievalError MetadataRetrievalError NoAuthTokenError
        TokenRetrievalError UnknownTokenProviderError UnknownCredentialError RefreshWithMFAUnsupportedError SSOError
        SSOTokenLoadError UnauthorizedSSOTokenError LoginError LoginRefreshRequired LoginInsufficientPermissions
        LoginTokenLoadError LoginAuthorizationCodeError InvalidIMDSEndpointError InvalidIMDSEndpointModeError""",
    ),
    (
        PLACE,
        """NoRegionError InvalidRegionError UnknownRegionError ServiceNotInRegionError BaseEndpointResolverError
        EndpointVariantError UnknownEndpointError UnknownFIPSEndpointError EndpointProviderError EndpointResolutionError
        UnknownEndpointResolutionBuiltInName InvalidEndpointConfigurationError InvalidHostLabelError InvalidDNSNameError
        InvalidProxiesConfigError InvalidS3AddressingStyleError InvalidS3UsEast1RegionalEndpointConfigError
        InvalidSTSRegionalEndpointsConfigError UnsupportedS3ArnError UnsupportedS3ControlArnError
        UnsupportedOutpostResourceError UnsupportedS3ConfigurationError UnsupportedS3AccesspointConfigurationError
        UnsupportedS3ControlConfigurationError ProfileNotFound ConfigParseError ConfigNotFound InvalidConfigError
        InfiniteLoopConfigError InvalidRetryConfigurationError InvalidMaxRetryAttemptsError InvalidRetryModeError
        InvalidDefaultsMode InvalidChecksumConfigError InvalidEndpointDiscoveryConfigurationError""",
    ),
    (
        CLIENT,
        """OSError BotoCoreError ClientError DataNotFoundError UnknownServiceError ApiVersionNotFoundError
        UnknownSignatureVersionError MissingParametersError ValidationError ParamValidationError UnknownKeyError RangeError
        UnknownParameterError AliasConflictParameterError UnknownServiceStyle PaginationError OperationNotPageableError
        UnseekableStreamError WaiterError InvalidExpressionError WaiterConfigError UnknownClientMethodError
        UnsupportedSignatureVersionError UnsupportedTLSVersionWarning ImminentRemovalWarning StubResponseError
        StubAssertionError UnStubbedResponseError MD5UnavailableError MissingDependencyException UndefinedModelAttributeError
        MissingServiceIdError CapacityNotAvailableError UnsupportedServiceProtocolsError""",
    ),
)
"""The judgement of each class of botocore, and of what else raises; a class that is not here is judged as its base class."""


def judge(code: str, status: int, class_names: Iterable[str]) -> Judgement:
    """Return what a failure means.

    Args:
        code: The code of the server's answer; empty if there is none.
        status: Status of the answer; 0 if there is none.
        class_names: The class of the error and its base classes, the most particular first.
    """
    if status or code:
        return CODES.get(code) or STATUSES.get(code) or STATUSES.get(str(status), CLIENT)
    return next((CLASSES[name] for name in class_names if name in CLASSES), CLIENT)
