"""`spec.driver.tls`: the certificate of the driver's HTTP API."""

from __future__ import annotations

from pydantic import Field

from statefulspark_operator.api.base import ApiModel

CERTIFICATE_KEY, PRIVATE_KEY, AUTHORITY_KEY = "tls.crt", "tls.key", "ca.crt"
"""Keys of the Secret: the names of Kubernetes' type kubernetes.io/tls, and cert-manager's for the authority."""


class DriverTls(ApiModel):
    """TLS of the driver's HTTP API. With it, neither driver nor operator speaks plain HTTP."""

    secret_name: str = Field(min_length=1, max_length=253)
    """Name of a Secret of type `kubernetes.io/tls` in the resource's namespace with the keys `tls.crt`, `tls.key` and
    `ca.crt`, as cert-manager writes it. The certificate must be valid for `<job>-driver.<namespace>.svc`. A renewed one is
    used without a restart."""
