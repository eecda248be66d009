"""Which files of a cut a manifest knows by their content, since nothing beside them vouches for it."""

from __future__ import annotations

import pytest
from statefulspark.checkpoint import checksums


@pytest.mark.parametrize(
    ("path", "is_small"),
    [
        ("metadata", True),
        ("offsets/7", True),
        ("commits/7", True),
        ("sources/0/4.compact", True),
        ("source-segments/clicks/00000007-00000003.arrow", True),
        ("operator-state/out/00000007-00000003.json", True),
        ("state/0/_metadata/v2/0", True),
        ("state/0/_stateSchema/default/0_1f", True),
        ("state/0/0/_metadata/schema", True),
        ("state/1/0/left-keyToNumValues/_metadata/schema", True),
        ("state/0/0/7_1f.zip", False),
        ("state/0/0/7_1f.changelog", False),
        ("state/0/0/SSTs/000007-1f.sst", False),
        ("state/0/0/SSTs/000007-1f.sst.crc", False),
        ("packs/mean/2-0/00000007-1f.pack", False),
    ],
)
def test_files_beside_which_there_is_no_checksum_have_one_in_the_manifest(path: str, is_small: bool) -> None:
    assert checksums.is_small(path, 100) is is_small
    assert not checksums.is_small(path, checksums.LIMIT_BYTES + 1)
