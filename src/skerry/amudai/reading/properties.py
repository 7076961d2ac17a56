"""The properties of shards and stripes.

Spec: docs/formats/amudai.md § 9.2, § 9.8; Amudai book, chapter 6, Shard Properties, Stripe List.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skerry.amudai.messages import ShardProperties, StripeProperties
from skerry.amudai.values.any_value import DateTime, Follow, Property, decode_properties

__all__ = ["PropertyBag", "decode_shard_properties", "decode_stripe_properties"]


@dataclass(frozen=True, slots=True)
class PropertyBag:
    """What is said of a shard or a stripe.

    Args:
        standard: Properties that the format or an engine gives a meaning to.
        custom: Properties of the writer's own.
        creation_min: When the oldest part of a shard was made; None for stripes, and if it is not said.
        creation_max: When the newest part was made.
    """

    standard: tuple[Property, ...] = ()
    custom: tuple[Property, ...] = ()
    creation_min: DateTime | None = None
    creation_max: DateTime | None = None

    def get(self, name: str, default: Any = None) -> Any:
        """The value of the first property of a name, custom ones before standard ones."""
        return next((item.value for item in (*self.custom, *self.standard) if item.name == name), default)


def decode_shard_properties(message: ShardProperties, follow: Follow | None = None) -> PropertyBag:
    """The properties of a shard.

    Args:
        message: The message.
        follow: Reads values that are stored elsewhere.

    Raises:
        FormatError: A value cannot be decoded.
    """
    return PropertyBag(
        decode_properties(message.standard_properties, follow),
        decode_properties(message.custom_properties, follow),
        DateTime(message.creation_min.ticks) if message.HasField("creation_min") else None,
        DateTime(message.creation_max.ticks) if message.HasField("creation_max") else None,
    )


def decode_stripe_properties(message: StripeProperties, follow: Follow | None = None) -> PropertyBag:
    """The properties of a stripe.

    Raises:
        FormatError: A value cannot be decoded.
    """
    return PropertyBag(
        decode_properties(message.standard_properties, follow), decode_properties(message.custom_properties, follow)
    )
