"""The proxy before the object store breaks what it is told to break and nothing else, before a real server.

Each test asks the server itself, and not the proxy, whether a request has happened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import botocore.config
import botocore.exceptions
import botocore.session
import pytest
from faults import s3proxy
from faults.s3proxy import Fault, Harm, Side
from s3server import ACCESS_KEY, REGION, SECRET_KEY, S3Server

pytestmark = pytest.mark.s3

BODY = b"0123456789" * 1000
BROKEN = (
    botocore.exceptions.ConnectionClosedError,
    botocore.exceptions.EndpointConnectionError,
    botocore.exceptions.ResponseStreamingError,
    botocore.exceptions.HTTPClientError,
)


def client_of(endpoint: str) -> Any:
    """Return a client that tries everything once."""
    return botocore.session.get_session().create_client(
        "s3",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=botocore.config.Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[s3proxy.S3Proxy]:
    with s3proxy.proxy_to(s3.endpoint, seed=1) as running:
        yield running


def there(s3: S3Server, bucket: str) -> dict[str, bytes]:
    """Return what the server has."""
    folder = s3.objects / bucket
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def put(client: Any, bucket: str, key: str = "one") -> None:
    client.put_object(Bucket=bucket, Key=key, Body=BODY, IfNoneMatch="*")


def test_requests_and_answers_pass_as_they_are(s3: S3Server, s3_bucket: str, proxy: s3proxy.S3Proxy) -> None:
    client = client_of(proxy.endpoint)
    put(client, s3_bucket)

    assert client.get_object(Bucket=s3_bucket, Key="one")["Body"].read() == BODY
    assert client.head_object(Bucket=s3_bucket, Key="one")["ContentLength"] == len(BODY)
    assert [one["Key"] for one in client.list_objects_v2(Bucket=s3_bucket)["Contents"]] == ["one"]
    client.delete_objects(Bucket=s3_bucket, Delete={"Objects": [{"Key": "one"}]})
    assert there(s3, s3_bucket) == {}
    assert proxy.count("PUT", "/one$") == 1


def test_a_store_that_is_gone_has_seen_nothing(s3: S3Server, s3_bucket: str, proxy: s3proxy.S3Proxy) -> None:
    with proxy.breaking(Fault(Harm.REFUSE)), pytest.raises(BROKEN):
        put(client_of(proxy.endpoint), s3_bucket)

    assert there(s3, s3_bucket) == {}
    put(client_of(proxy.endpoint), s3_bucket)
    assert there(s3, s3_bucket) == {"one": BODY}


def test_a_lost_answer_is_that_of_a_request_that_happened(s3: S3Server, s3_bucket: str, proxy: s3proxy.S3Proxy) -> None:
    client = client_of(proxy.endpoint)
    name = proxy.arm(Fault(Harm.LOSE_ANSWER, "PUT", "/one$", times=1))
    put(client, s3_bucket, "another")

    assert not proxy.has_struck(name)
    with pytest.raises(BROKEN):
        put(client, s3_bucket)
    assert proxy.has_struck(name)
    assert there(s3, s3_bucket)["one"] == BODY
    with pytest.raises(botocore.exceptions.ClientError, match="PreconditionFailed"):
        put(client, s3_bucket)


def test_half_a_body_leaves_no_object(s3: S3Server, s3_bucket: str, proxy: s3proxy.S3Proxy) -> None:
    with proxy.breaking(Fault(Harm.CUT, "PUT")), pytest.raises(BROKEN):
        put(client_of(proxy.endpoint), s3_bucket)

    assert there(s3, s3_bucket) == {}


def test_half_an_answer_is_noticed_by_its_reader(s3_bucket: str, proxy: s3proxy.S3Proxy) -> None:
    client = client_of(proxy.endpoint)
    put(client, s3_bucket)
    with proxy.breaking(Fault(Harm.CUT, "GET")), pytest.raises(BROKEN):
        client.get_object(Bucket=s3_bucket, Key="one")["Body"].read()


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        pytest.param(Harm.BUSY, "SlowDown", id="a busy store says so"),
        pytest.param(Harm.THROTTLE, "TooManyRequests", id="a gateway throttles"),
        pytest.param(Harm.SPOIL_SIGNATURE, "SignatureDoesNotMatch", id="the store itself refuses wrong credentials"),
    ],
)
def test_a_request_is_refused_by_name(
    harm: Harm, code: str, s3: S3Server, s3_bucket: str, proxy: s3proxy.S3Proxy
) -> None:
    with proxy.breaking(Fault(harm)), pytest.raises(botocore.exceptions.ClientError, match=code):
        put(client_of(proxy.endpoint), s3_bucket)

    assert there(s3, s3_bucket) == {}


@pytest.mark.parametrize(
    ("side", "seen"),
    [
        pytest.param(Side.BEFORE, {}, id="before the store has it"),
        pytest.param(Side.AFTER, {"one": BODY}, id="after it happened"),
    ],
)
def test_a_request_is_held_and_then_dropped(
    side: Side, seen: dict[str, bytes], s3: S3Server, s3_bucket: str, proxy: s3proxy.S3Proxy
) -> None:
    hold = proxy.hold("PUT", "/one$", side)
    errors: list[Exception] = []
    sender = threading.Thread(target=_try, args=(lambda: put(client_of(proxy.endpoint), s3_bucket), errors))
    sender.start()
    hold.until_come(within_s=20)

    assert there(s3, s3_bucket) == seen
    hold.drop()
    sender.join(20)
    assert isinstance(errors[0], BROKEN)
    assert there(s3, s3_bucket) == seen


def test_a_request_that_was_held_arrives_late(s3: S3Server, s3_bucket: str, proxy: s3proxy.S3Proxy) -> None:
    hold = proxy.hold("PUT", "/one$", Side.BEFORE)
    errors: list[Exception] = []
    sender = threading.Thread(target=_try, args=(lambda: put(client_of(proxy.endpoint), s3_bucket), errors))
    sender.start()
    hold.until_come(within_s=20)
    put(client_of(s3.endpoint), s3_bucket, "meanwhile")
    hold.let_go()
    sender.join(20)

    assert errors == []
    assert there(s3, s3_bucket) == {"one": BODY, "meanwhile": BODY}


def test_the_same_seed_breaks_the_same_requests(s3: S3Server) -> None:
    struck = []
    for _ in range(2):
        with s3proxy.proxy_to(s3.endpoint, seed=5) as proxy, proxy.breaking(Fault(Harm.BUSY, share=0.5)):
            struck.append([proxy.take_fault("PUT", "/x") is not None for _ in range(40)])

    assert struck[0] == struck[1]
    assert 5 < sum(struck[0]) < 35


def _try(act: Callable[[], None], errors: list[Exception]) -> None:
    try:
        act()
    except BROKEN as error:
        errors.append(error)
