"""What a zip may ask of the memory of who opens it.

`zipfile` makes an object of each entry of the table of contents before anybody can count them: ten bytes of memory for each
byte of it. The end of the file tells how large the table is.
"""

from __future__ import annotations

import io
import zipfile


def require_directory(body: bytes, most_bytes: int) -> None:
    """Refuse a zip with a table of contents that is too large, before it is read.

    Args:
        body: The zip; what is none passes, and `zipfile` refuses it.
        most_bytes: What the table may have.

    Raises:
        BadZipFile: It has more.
    """
    # zipfile's own reading of the end, so that both mean the same table.
    end = zipfile._EndRecData(io.BytesIO(body))  # type: ignore[attr-defined]  # it has no public name
    if end and end[zipfile._ECD_SIZE] > most_bytes:  # type: ignore[attr-defined]
        raise zipfile.BadZipFile(f"its table of contents has more than {most_bytes} bytes")
