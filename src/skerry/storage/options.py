"""Storage options: PyIceberg's property names translated to obstore's configuration.

No other module knows both. An option that is known but cannot be honoured is refused by name; all others do not
concern the storage and are dropped, so that a catalog's own secrets are not passed along.
"""

from __future__ import annotations

import difflib
import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from skerry.arguments import check_list
from skerry.errors import SchemaError, UnsupportedError
from skerry.storage.json_text import decode_json
from skerry.storage.location import Family, absolute, redact
from skerry.storage.moves import MOVED_FROM, MOVED_TO

__all__ = [
    "ALLOWED_LOCATIONS",
    "BASE_LOCATION",
    "READ_ONLY",
    "StoreSettings",
    "allow_locations",
    "allowed_locations",
    "check_options",
    "describe_options",
    "is_harmless",
    "secret_values",
    "select_options",
    "signs_remotely",
    "store_settings",
]

ALLOWED_LOCATIONS: Final = "skerry.allowed-locations"
"""Catalog property: a JSON list of folders in which files of tables may be read beside the tables' own folders."""
READ_ONLY: Final = "skerry.read-only"
"""Storage option: why nothing may be written or deleted."""
BASE_LOCATION: Final = "skerry.base-location"
"""Storage option: the folder of a table, to which relative locations in its metadata are joined."""
_PREFIXES: Final = ("s3.", "gcs.", "adls.", "client.", MOVED_FROM, MOVED_TO, READ_ONLY, BASE_LOCATION)
_PUBLIC: Final = frozenset(
    {
        "adls.account-host",
        "adls.account-name",
        "adls.blob-storage-authority",
        "adls.blob-storage-scheme",
        "client.region",
        "gcs.project-id",
        "gcs.service.host",
        "s3.anonymous",
        "s3.connect-timeout",
        "s3.endpoint",
        "s3.force-virtual-addressing",
        "s3.path-style-access",
        "s3.region",
        "s3.remote-signing-enabled",
        "s3.request-timeout",
        "s3.server-side-encryption",
        MOVED_FROM,
        MOVED_TO,
        READ_ONLY,
        BASE_LOCATION,
    }
)
_FLAGS: Final = ("adls.anon", "s3.anonymous", "s3.force-virtual-addressing", "s3.remote-signing-enabled")
_DURATIONS: Final = ("s3.connect-timeout", "s3.request-timeout")
_KNOWN: Final = frozenset(
    {
        *(name for name in _PUBLIC if name.startswith(("s3.", "gcs.", "adls."))),
        *_FLAGS,
        *(
            f"adls.{name}"
            for name in (
                "account-key", "client-id", "client-secret", "connection-string", "credential",
                "dfs-storage-authority", "dfs-storage-scheme", "sas-token", "tenant-id", "token",
            )
        ),
        *(
            f"gcs.{name}"
            for name in (
                "access", "cache-timeout", "consistency", "default-bucket-location", "oauth2.token",
                "oauth2.token-expires-at", "requester-pays", "session-kwargs", "version-aware",
            )
        ),
        *(
            f"s3.{name}"
            for name in (
                "access-key-id", "profile-name", "proxy-uri", "resolve-region", "retry-strategy-impl", "role-arn",
                "role-session-name", "secret-access-key", "session-token", "signer", "signer.endpoint", "signer.uri",
                "sse-kms-key-id",
            )
        ),
    }
)  # fmt: skip
"""What this module obeys, and what PyIceberg does, which may open the catalog."""
_AZURE_PUBLIC_SUFFIX: Final = "core.windows.net"
_MIN_SECRET_LENGTH: Final = 4
_TEMPORARY: Final = {
    "access_key_id": "access_key_id",
    "secret_access_key": "secret_access_key",
    "session_token": "token",
    "bearer_token": "token",
    "sas_key": "sas_token",
}
"""What may expire: keys of configurations, and their names in what a credential provider returns."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The configuration of one obstore store.

    Args:
        config: Keys of the store's own configuration.
        client: Keys of obstore's `ClientConfig`.
    """

    config: dict[str, Any]
    client: dict[str, Any] = field(default_factory=dict)

    def temporary_credentials(self) -> dict[str, Any]:
        """What expires, by the names of obstore's credential providers; empty if something else grants access."""
        found = {name: self.config[key] for key, name in _TEMPORARY.items() if self.config.get(key) is not None}
        return found if "access_key_id" not in found or "secret_access_key" in found else {}

    def without_credentials(self) -> dict[str, Any]:
        """The configuration without what expires."""
        return {key: value for key, value in self.config.items() if key not in _TEMPORARY}


def select_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Keep the options that concern storage, as strings; None means not set."""
    return {key: _as_text(value) for key, value in options.items() if key.startswith(_PREFIXES) and value is not None}


def allow_locations(locations: Iterable[str | os.PathLike[str]]) -> dict[str, str]:
    """The catalog property that allows tables to read from folders; none if there are none.

    Args:
        locations: The folders; relative paths are resolved now.

    Raises:
        SchemaError: It is not a list of paths.
    """
    check_list("allowed_locations", locations, "paths")
    found = [absolute(location) for location in locations]
    return {ALLOWED_LOCATIONS: json.dumps(found)} if found else {}


def allowed_locations(properties: Mapping[str, Any]) -> tuple[str, ...]:
    """The folders that a catalog's properties allow tables to read from.

    Raises:
        SchemaError: The property is not a JSON list of locations.
    """
    text = properties.get(ALLOWED_LOCATIONS)
    if text is None:
        return ()
    try:
        found = decode_json(text)
    except (ValueError, AttributeError):  # not text
        found = None
    if not isinstance(found, list) or not all(isinstance(location, str) and location for location in found):
        raise SchemaError(f"catalog property {ALLOWED_LOCATIONS!r} is {text!r}, expected a JSON list of locations")
    return tuple(map(absolute, found))


def is_harmless(name: str) -> bool:
    """Whether the value of an option is known not to be a secret."""
    return name in _PUBLIC


def check_options(options: Mapping[str, Any]) -> None:
    """Check the options that a caller gives: warn of names that nothing obeys, refuse values that are none.

    Raises:
        SchemaError: A value does not have the form that its option requires.
    """
    for name in options:
        if name.startswith(("s3.", "gcs.", "adls.")) and name not in _KNOWN and not name.startswith("adls.sas-token."):
            near = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=0.6)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            warnings.warn(f"nothing obeys the storage option {name!r}{hint}", stacklevel=3)
    given = select_options(options)
    for name in _FLAGS:
        _as_bool(given, name)
    for name in _DURATIONS:
        _as_duration(given, name)


def describe_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options for display: all values are hidden except those known to be harmless."""
    return {key: redact(value) if key in _PUBLIC else "***" for key, value in options.items()}


def secret_values(options: Mapping[str, str]) -> list[str]:
    """Values that must never be displayed, longest first."""
    hidden = {value for key, value in options.items() if key not in _PUBLIC and len(value) >= _MIN_SECRET_LENGTH}
    return sorted(hidden, key=len, reverse=True)


def signs_remotely(options: Mapping[str, str]) -> bool:
    """Whether the catalog signs requests to S3: it says so, and there are no keys to do it here.

    Raises:
        SchemaError: The option is neither true nor false.
    """
    keys = _first(options, "s3.access-key-id", "client.access-key-id")
    return keys is None and bool(_as_bool(options, "s3.remote-signing-enabled"))


def store_settings(family: Family, authority: str, options: Mapping[str, str]) -> StoreSettings:
    """Translate the options for the store of a location.

    Args:
        family: The kind of store; not local files.
        authority: The bucket, or Azure's container and host.
        options: The result of `select_options`.

    Returns:
        The settings; empty for a store in memory.

    Raises:
        UnsupportedError: An option requests something that is not supported, for example remote signing.
        SchemaError: A value does not have the form that its option requires.
    """
    return _TRANSLATORS[family](authority, options)


def _s3(bucket: str, options: Mapping[str, str]) -> StoreSettings:
    access_key = _first(options, "s3.access-key-id", "client.access-key-id")
    _refuse(options, "s3.role-arn", "client.role-arn", "s3.profile-name", "client.profile-name")
    if access_key is None:
        _refuse(options, "s3.signer")
        if signs_remotely(options):
            raise UnsupportedError(
                "requests to S3 are signed by the catalog (s3.remote-signing-enabled), which only works for tables of "
                "REST catalogs: ask it for credentials, or give s3.access-key-id and s3.secret-access-key"
            )
    endpoint = options.get("s3.endpoint")
    virtual = _as_bool(options, "s3.force-virtual-addressing")
    if endpoint and virtual:
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{bucket}.{host}"
    config: dict[str, Any] = {
        "bucket": bucket,
        "access_key_id": access_key,
        "secret_access_key": _first(options, "s3.secret-access-key", "client.secret-access-key"),
        "session_token": _first(options, "s3.session-token", "client.session-token"),
        "region": _first(options, "s3.region", "client.region"),
        "endpoint": endpoint.rstrip("/") if endpoint else None,
        "virtual_hosted_style_request": virtual,
        "skip_signature": _as_bool(options, "s3.anonymous"),
        "server_side_encryption": options.get("s3.server-side-encryption"),
        "sse_kms_key_id": options.get("s3.sse-kms-key-id"),
    }
    client = {
        **_plain_http(endpoint),
        "proxy_url": options.get("s3.proxy-uri"),
        "connect_timeout": _as_duration(options, "s3.connect-timeout"),
        "read_timeout": _as_duration(options, "s3.request-timeout"),
    }
    return StoreSettings(_given(config), _given(client))


def _gcs(bucket: str, options: Mapping[str, str]) -> StoreSettings:
    host = options.get("gcs.service.host")
    config = {
        "bucket": bucket,
        "bearer_token": options.get("gcs.oauth2.token"),
        "base_url": host.rstrip("/") if host else None,
    }
    return StoreSettings(_given(config), _plain_http(host))


def _azure(authority: str, options: Mapping[str, str]) -> StoreSettings:
    container, _, host = authority.partition("@")
    host_account, _, host_suffix = host.partition(".")
    connection = _connection_string(options)
    account = host_account or _first(options, "adls.account-name") or connection.get("accountname")
    endpoint = _azure_endpoint(account, host_suffix, options, connection)
    config: dict[str, Any] = {
        "container_name": container,
        "account_name": account,
        "account_key": options.get("adls.account-key") or connection.get("accountkey"),
        "sas_key": _sas_token(account, host, options) or connection.get("sharedaccesssignature"),
        "token": options.get("adls.token"),
        "tenant_id": options.get("adls.tenant-id"),
        "client_id": options.get("adls.client-id"),
        "client_secret": options.get("adls.client-secret"),
        "endpoint": endpoint,
        "skip_signature": _as_bool(options, "adls.anon"),
    }
    return StoreSettings(_given(config), _plain_http(endpoint))


def _azure_endpoint(
    account: str | None, host_suffix: str, options: Mapping[str, str], connection: Mapping[str, str]
) -> str | None:
    """The URL of the account's blob service; None for Azure's public address."""
    if account_host := options.get("adls.account-host"):
        return f"https://{account_host}"
    if authority := options.get("adls.blob-storage-authority"):
        scheme = options.get("adls.blob-storage-scheme", "https")
        # A suffix follows the account's name; an emulator's address precedes it.
        return f"{scheme}://{account}{authority}" if authority.startswith(".") else f"{scheme}://{authority}/{account}"
    if endpoint := connection.get("blobendpoint"):
        return endpoint.rstrip("/")
    suffix = host_suffix.partition(".")[2] or connection.get("endpointsuffix", "")
    return f"https://{account}.blob.{suffix}" if suffix not in ("", _AZURE_PUBLIC_SUFFIX) else None


def _sas_token(account: str | None, host: str, options: Mapping[str, str]) -> str | None:
    """The account's own token (`adls.sas-token.<account>` or `adls.sas-token.<host>`), or the general one."""
    names = [f"adls.sas-token.{host}", f"adls.sas-token.{account}", "adls.sas-token"]
    own = f"adls.sas-token.{account}."
    names[1:1] = [key for key in options if key.startswith(own)]
    token = _first(options, *names)
    return token.removeprefix("?") if token else None


def _connection_string(options: Mapping[str, str]) -> dict[str, str]:
    """Parse an Azure connection string, `Name=value;…`, into values by lower-case name."""
    pairs = (part.partition("=") for part in options.get("adls.connection-string", "").split(";") if part)
    return {name.strip().lower(): value for name, _, value in pairs}


def _memory(_authority: str, _options: Mapping[str, str]) -> StoreSettings:
    return StoreSettings({})


_TRANSLATORS: Final[dict[Family, Callable[[str, Mapping[str, str]], StoreSettings]]] = {
    Family.MEMORY: _memory,
    Family.S3: _s3,
    Family.GCS: _gcs,
    Family.AZURE: _azure,
}


def _first(options: Mapping[str, str], *names: str) -> str | None:
    return next((options[name] for name in names if options.get(name)), None)


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value is not None}


def _plain_http(endpoint: str | None) -> dict[str, Any]:
    return {"allow_http": True} if endpoint and endpoint.lower().startswith("http://") else {}


def _refuse(options: Mapping[str, str], *names: str) -> None:
    for name in names:
        if options.get(name):
            raise UnsupportedError(
                f"storage option {name!r} is not supported; give access keys, or none for those of the machine"
            )


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_bool(options: Mapping[str, str], name: str) -> bool | None:
    value = options.get(name)
    if value is None:
        return None
    if value.lower() not in ("true", "false"):
        raise SchemaError(f"storage option {name!r} is {value!r}, expected true or false")
    return value.lower() == "true"


def _as_duration(options: Mapping[str, str], name: str) -> timedelta | None:
    value = options.get(name)
    if value is None:
        return None
    try:
        return timedelta(seconds=float(value))
    except (ValueError, OverflowError):
        raise SchemaError(f"storage option {name!r} is {value!r}, expected seconds") from None
