"""Copies are decoded in any encoding, in any cut, and never beyond their limit."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from openmem.context.proxy.encodings import TooLarge, Undecodable, decode_body


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKERS = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "x-gzip": lambda data: gzip.compress(data[:10]) + gzip.compress(data[10:]),
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
    "br": brotli.compress,
    "zstd": lambda data: zstandard.compress(data[:9]) + zstandard.compress(data[9:]),
    "gzip, gzip": lambda data: gzip.compress(gzip.compress(data)),
    "gzip, br": lambda data: brotli.compress(gzip.compress(data)),
}


@pytest.mark.parametrize("name", PACKERS)
@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=3000), step=st.integers(1, 700))
def test_any_cut_decodes_to_the_whole(name, data, step):
    """RFC 9110, section 8.4: gzip members, zlib with and without header, layers."""
    packed = PACKERS[name](data)
    pieces = [packed[at : at + step] for at in range(0, len(packed), step)]
    assert decode_body(pieces, name, 10_000) == data


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
def test_a_bomb_is_refused_without_unfolding_it(name):
    """Users' report 43: a 1 KB body that expands to gigabytes."""
    packed = PACKERS[name](bytes(200 * 1024 * 1024))
    tracemalloc.start()
    with pytest.raises(TooLarge):
        decode_body([packed], name, 1024 * 1024)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * 1024 * 1024


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd", "compress", "a, b, c, d"])
def test_junk_and_unknown_encodings_are_told_apart_from_data(name):
    """Ours: such a request is passed on unrecorded."""
    junk = random.Random(7).randbytes(500)
    with pytest.raises(Undecodable):
        decode_body([junk], name, 10_000)


def test_the_limit_is_exact():
    """Ours: the limit of the settings is the limit."""
    assert decode_body([b"abc", b"de"], "", 5) == b"abcde"
    with pytest.raises(TooLarge):
        decode_body([b"abc", b"def"], "", 5)
