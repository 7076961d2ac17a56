"""Signatures of requests to REST catalogs of Amazon (Glue, S3 Tables, behind an API gateway), version 4.

botocore signs; it is used if it is installed, since no other catalog needs it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from skerry.errors import AccessDeniedError, MissingDependencyError, SchemaError

__all__ = ["SigV4"]

_EMPTY: Final = hashlib.sha256(b"").hexdigest()


class SigV4:
    """Signs requests with the keys of a catalog's properties, or of the machine.

    Args:
        properties: `rest.signing-region`, `rest.signing-name`, `client.access-key-id` and its companions.

    Raises:
        MissingDependencyError: botocore is not installed.
        SchemaError: No region is known.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        try:
            import botocore.session
            from botocore.credentials import Credentials
        except ImportError:
            raise MissingDependencyError(
                "rest.sigv4-enabled needs botocore: install it (pip install botocore)"
            ) from None
        session = botocore.session.Session(profile=properties.get("client.profile-name"))
        key, secret = properties.get("client.access-key-id"), properties.get("client.secret-access-key")
        if key and secret:
            self._credentials = Credentials(key, secret, properties.get("client.session-token"))
        else:
            self._credentials = session.get_credentials()
        self._service = str(properties.get("rest.signing-name") or "execute-api")
        region = properties.get("rest.signing-region") or properties.get("client.region")
        self._region = str(region or session.get_config_variable("region") or "")
        if not self._region:
            raise SchemaError("rest.sigv4-enabled needs rest.signing-region")

    def signed(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> dict[str, str]:
        """The headers of a request, with its signature; another `Authorization` becomes `Original-Authorization`.

        Raises:
            AccessDeniedError: The machine has no keys.
        """
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        if self._credentials is None:
            raise AccessDeniedError("rest.sigv4-enabled: no keys of Amazon's were found")
        found = dict(headers)
        other = found.pop("Authorization", None)
        if not body:
            found["x-amz-content-sha256"] = _EMPTY
        request = AWSRequest(method=method, url=url, data=body, headers=found)
        SigV4Auth(self._credentials.get_frozen_credentials(), self._service, self._region).add_auth(request)
        signed = dict(request.headers.items())
        return {**signed, "Original-Authorization": other} if other is not None else signed
