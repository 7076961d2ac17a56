"""Writing a file of a shard: a header, aligned buffers, messages, a footer. It becomes visible when it is complete.

Spec: docs/formats/amudai.md § 2.1, § 2.4; Amudai book, chapter 6, Shard Directory, Encoded Buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.message import Message

from skerry.amudai.messages import DataRef
from skerry.amudai.shard.framing import encode_message
from skerry.amudai.shard.references import encode_data_ref
from skerry.amudai.shard.shard_files import FRAME
from skerry.storage import Storage

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["BUFFER_ALIGNMENT", "ArtifactWriter"]

BUFFER_ALIGNMENT: Final = 64
"""Encoded buffers start at multiples of this many bytes."""


class ArtifactWriter:
    """A file of a shard that is being written. It appears when it is closed.

    Args:
        storage: Where to write.
        location: The file.
        overwrite: Whether a file of that name is replaced.

    Raises:
        AlreadyExistsError: There is a file of that name, and `overwrite` is false.
    """

    def __init__(self, storage: Storage, location: str, *, overwrite: bool = False) -> None:
        self.location = location
        self.position = 0
        """Bytes written so far."""
        self._sink = storage.open_output(location, overwrite=overwrite)
        self.write(FRAME)

    def write(self, data: Buffer) -> None:
        """Add bytes."""
        view = memoryview(data).cast("B")
        self._sink.write(view)
        self.position += view.nbytes

    def align(self) -> int:
        """Add zeros up to where a buffer may start.

        Returns:
            The position.
        """
        self.write(bytes(-self.position % BUFFER_ALIGNMENT))
        return self.position

    def write_message(self, message: Message) -> DataRef:
        """Add a message in its frame.

        Returns:
            A reference to it from within this file.
        """
        return self.write_frame(encode_message(message))

    def write_frame(self, frame: bytes) -> DataRef:
        """Add a message that has its frame already.

        Returns:
            A reference to it from within this file.
        """
        start = self.position
        self.write(frame)
        return encode_data_ref(start, self.position)

    def close(self, end: bytes = FRAME) -> None:
        """Add the last bytes and make the file visible.

        Args:
            end: What ends with the footer; the footer alone by default.
        """
        self.write(end)
        self._sink.close()

    def abort(self) -> None:
        """Throw everything away."""
        self._sink.abort()
