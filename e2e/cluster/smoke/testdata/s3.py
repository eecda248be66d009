"""Put an object and read it back: s3.py ENDPOINT BUCKET KEY TEXT, signed (AWS Signature Version 4) with no library."""

import datetime
import hashlib
import hmac
import sys
import urllib.request

endpoint, bucket, key, text = sys.argv[1:]


def call(method: str, body: bytes) -> bytes:
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    host, path, digest = endpoint.split("//")[1], f"/{bucket}/{key}", hashlib.sha256(body).hexdigest()
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": now}
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = hashlib.sha256(f"{method}\n{path}\n\n{lines}\n{names}\n{digest}".encode()).hexdigest()
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    secret = b"AWS4test-secret"
    for part in scope.split("/"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    signature = hmac.digest(secret, f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{request}".encode(), "sha256").hex()
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential=test/{scope}, SignedHeaders={names}, Signature={signature}"
    sent = urllib.request.Request(endpoint + path, data=body or None, headers=headers, method=method)
    return urllib.request.urlopen(sent, timeout=5).read()


call("PUT", text.encode())
print(call("GET", b"").decode())
