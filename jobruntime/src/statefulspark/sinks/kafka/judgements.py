"""What each error of Kafka's brokers and of librdkafka means for the job. Pure.

The names are those of `confluent_kafka.KafkaError`; errors of the client begin with an underscore.
"""

from __future__ import annotations

from statefulspark.judgement import Judgement, Remedy, table

_REACH = Judgement(Remedy.WAIT, "waits until the brokers answer; check that they run, their names, and the network")
_TLS = Judgement(
    Remedy.WAIT,
    "waits until TLS is agreed on; if it stays so, correct security.protocol and the ssl. settings of the sink's options",
)
_ROLLING = Judgement(Remedy.WAIT, "waits until the brokers have settled who leads, as while they restart")
_REPLICAS = Judgement(
    Remedy.WAIT, "waits until as many replicas are in sync as min.insync.replicas of the topic asks for"
)
_TOPIC = Judgement(
    Remedy.WAIT, "waits until the brokers know the topic again, as while they restart; create it if it was deleted"
)
_THROTTLED = Judgement(Remedy.WAIT, "waits, since the brokers limit the user by a quota; raise it if that takes long")
_AGAIN = Judgement(Remedy.WAIT, "the transaction is given up, and sent again by a new producer")
_BROKER = Judgement(Remedy.WAIT, "it is tried again; look into the brokers' log if it comes again")
_FENCED = Judgement(
    Remedy.LOST_RACE, "another producer took this one's name; the marker tells whether it is a newer driver"
)
_PASSWORD = Judgement(Remedy.CREDENTIALS, "check the sasl. settings in the sink's options")
_RIGHTS = Judgement(
    Remedy.RIGHTS,
    "give the user WRITE and DESCRIBE on the topic, READ on the marker's group, and WRITE and DESCRIBE on the "
    "transactional id",
)
_GROUP = Judgement(
    Remedy.PERSON, "another program is a member of the marker's consumer group: give that program a group of its own"
)
_SIZE = Judgement(
    Remedy.PERSON,
    "raise message.max.bytes in the sink's options and max.message.bytes of the topic; or make the record smaller, and "
    "start from the checkpoint before it (--restore-checkpoint-id, or restore.source.checkpointID)",
)
_MARKER_SIZE = Judgement(Remedy.PERSON, "raise offset.metadata.max.bytes of the brokers to 4096 or more")
_TIMEOUT = Judgement(
    Remedy.PERSON,
    "transaction.timeout.ms of the sink is {transaction_timeout_ms}, and the brokers allow at most their "
    "transaction.max.timeout.ms: set transaction.timeout.ms in the sink's options to that or less, or raise the "
    "brokers' limit",
)
_PARTITION = Judgement(
    Remedy.PERSON,
    "the record names a partition that the topic does not have: give the topic more partitions; or correct the code, and "
    "start from the checkpoint before it (--restore-checkpoint-id, or restore.source.checkpointID)",
)
_RECORD = Judgement(
    Remedy.PERSON,
    "the topic takes no such record, for example none without a key if it is compacted: change the topic's settings; or "
    "correct the code, and start from the checkpoint before it (--restore-checkpoint-id, or restore.source.checkpointID)",
)
_POLICY = Judgement(Remedy.PERSON, "a policy of the brokers refuses it: change the policy, or the topic")
_NAME = Judgement(Remedy.PERSON, "correct the topic's name")
_SETTING = Judgement(Remedy.PERSON, "correct the sink's options and its bootstrap_servers")
_VERSION = Judgement(
    Remedy.PERSON, "the brokers are too old for transactions, or are not Kafka's: use brokers that have them"
)
_ELSEWHERE = Judgement(Remedy.PERSON, "no call of the sink is answered so: report it with the log")

NAMES = table(
    (
        _REACH,
        """_TRANSPORT _RESOLVE _ALL_BROKERS_DOWN _TIMED_OUT _TIMED_OUT_QUEUE _MSG_TIMED_OUT _DESTROY _DESTROY_BROKER
        _NODE_UPDATE _UNKNOWN_BROKER _INTR REQUEST_TIMED_OUT BROKER_NOT_AVAILABLE NETWORK_EXCEPTION LISTENER_NOT_FOUND
        REBOOTSTRAP_REQUIRED""",
    ),
    (_TLS, "_SSL"),
    (
        _ROLLING,
        """LEADER_NOT_AVAILABLE NOT_LEADER_FOR_PARTITION REPLICA_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS
        COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR NOT_CONTROLLER FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH STALE_BROKER_EPOCH
        STALE_CTRL_EPOCH PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE OFFSET_NOT_AVAILABLE
        REASSIGNMENT_IN_PROGRESS UNKNOWN_CONTROLLER_ID TRANSACTION_COORDINATOR_FENCED _WAIT_COORD _WAIT_CACHE _OUTDATED""",
    ),
    (_REPLICAS, "NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND _ISR_INSUFF"),
    (_TOPIC, "UNKNOWN_TOPIC_OR_PART UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID _UNKNOWN_TOPIC"),
    (_THROTTLED, "THROTTLING_QUOTA_EXCEEDED"),
    (
        _AGAIN,
        """CONCURRENT_TRANSACTIONS OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER INVALID_TXN_STATE
        INVALID_PRODUCER_ID_MAPPING UNKNOWN_PRODUCER_ID TRANSACTION_ABORTABLE UNSTABLE_OFFSET_COMMIT _STATE _CONFLICT _RETRY
        _IN_PROGRESS _PREV_IN_PROGRESS _PURGE_QUEUE _PURGE_INFLIGHT _GAPLESS_GUARANTEE _INCONSISTENT _QUEUE_FULL _PARTIAL""",
    ),
    (
        _BROKER,
        """UNKNOWN INVALID_MSG KAFKA_STORAGE_ERROR LOG_DIR_NOT_FOUND PRINCIPAL_DESERIALIZATION_FAILURE _FAIL _FS _BAD_MSG
        _BAD_COMPRESSION _UNDERFLOW _CRIT_SYS_RESOURCE""",
    ),
    (_FENCED, "_FENCED _FATAL PRODUCER_FENCED INVALID_PRODUCER_EPOCH"),
    (
        _PASSWORD,
        """_AUTHENTICATION SASL_AUTHENTICATION_FAILED ILLEGAL_SASL_STATE UNACCEPTABLE_CREDENTIAL DELEGATION_TOKEN_NOT_FOUND
        DELEGATION_TOKEN_EXPIRED DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED""",
    ),
    (
        _RIGHTS,
        """TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTHORIZATION_FAILED""",
    ),
    (
        _GROUP,
        """ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS INCONSISTENT_GROUP_PROTOCOL MEMBER_ID_REQUIRED
        GROUP_MAX_SIZE_REACHED FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH STALE_MEMBER_EPOCH UNRELEASED_INSTANCE_ID
        UNSUPPORTED_ASSIGNOR NON_EMPTY_GROUP GROUP_SUBSCRIBED_TO_TOPIC _ASSIGNMENT_LOST _MAX_POLL_EXCEEDED""",
    ),
    (_SIZE, "MSG_SIZE_TOO_LARGE INVALID_MSG_SIZE RECORD_LIST_TOO_LARGE"),
    (_MARKER_SIZE, "OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE"),
    (_TIMEOUT, "INVALID_TRANSACTION_TIMEOUT"),
    (_PARTITION, "_UNKNOWN_PARTITION"),
    (_RECORD, "INVALID_RECORD INVALID_TIMESTAMP _INVALID_DIFFERENT_RECORD"),
    (_POLICY, "POLICY_VIOLATION"),
    (_NAME, "TOPIC_EXCEPTION"),
    (
        _SETTING,
        """_INVALID_ARG _INVALID_TYPE _NOT_CONFIGURED _UNKNOWN_PROTOCOL INVALID_REQUIRED_ACKS INVALID_CONFIG INVALID_GROUP_ID
        INVALID_SESSION_TIMEOUT UNSUPPORTED_COMPRESSION_TYPE UNSUPPORTED_SASL_MECHANISM SECURITY_DISABLED
        DELEGATION_TOKEN_AUTH_DISABLED INVALID_PRINCIPAL_TYPE MISMATCHED_ENDPOINT_TYPE""",
    ),
    (
        _VERSION,
        """UNSUPPORTED_VERSION UNSUPPORTED_FOR_MESSAGE_FORMAT INVALID_REQUEST _UNSUPPORTED_FEATURE _NOT_IMPLEMENTED
        UNSUPPORTED_ENDPOINT_TYPE""",
    ),
    (
        _ELSEWHERE,
        """NO_ERROR OFFSET_OUT_OF_RANGE TOPIC_ALREADY_EXISTS INVALID_PARTITIONS INVALID_REPLICATION_FACTOR
        INVALID_REPLICA_ASSIGNMENT OPERATION_NOT_ATTEMPTED GROUP_ID_NOT_FOUND FETCH_SESSION_ID_NOT_FOUND
        INVALID_FETCH_SESSION_EPOCH TOPIC_DELETION_DISABLED ELECTION_NOT_NEEDED NO_REASSIGNMENT_IN_PROGRESS
        RESOURCE_NOT_FOUND DUPLICATE_RESOURCE INCONSISTENT_VOTER_SET INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED
        UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE INVALID_REGISTRATION INVALID_RECORD_STATE SHARE_SESSION_NOT_FOUND
        INVALID_SHARE_SESSION_EPOCH SHARE_SESSION_LIMIT_REACHED FENCED_STATE_EPOCH INVALID_VOTER_KEY DUPLICATE_VOTER
        VOTER_NOT_FOUND INVALID_REGULAR_EXPRESSION STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH
        STREAMS_TOPOLOGY_FENCED _PARTITION_EOF _UNKNOWN_GROUP _EXISTING_SUBSCRIPTION _ASSIGN_PARTITIONS _REVOKE_PARTITIONS
        _NO_OFFSET _KEY_SERIALIZATION _VALUE_SERIALIZATION _KEY_DESERIALIZATION _VALUE_DESERIALIZATION _READ_ONLY _NOENT
        _APPLICATION _NOOP _AUTO_OFFSET_RESET _LOG_TRUNCATION""",
    ),
)
"""The judgement of each error, by its name."""


def judge(name: str, hint: str = "") -> Judgement:
    """Return what an error means.

    Args:
        name: Its name; a name that the client does not know is waited for.
        hint: The name of the client's last trouble with a connection, which tells why nothing answers; empty for none.
    """
    judgement = NAMES.get(name, _BROKER)
    return NAMES.get(hint, judgement) if judgement is _REACH else judgement
