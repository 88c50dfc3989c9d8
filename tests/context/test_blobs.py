"""Images and other base64 payloads: once, outside the database, and the words beside them kept."""

from __future__ import annotations

import base64
import os
import random
import stat
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmem.base.paths import Paths
from openmem.context.store.blobs import find_blob, media_of, take_out_runs
from openmem.context.store.reader import open_session
from openmem.context.store.recorder import Recorder
from tests.fakes.conversation import KEY, Message, incoming, result, stored, user

CAPTION = "The plot shows latency over a week; the spike on Tuesday is the deploy. " * 3


def picture(size: int, seed: int = 1) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + random.Random(seed).randbytes(size)


def image(data: bytes) -> Message:
    source = {
        "type": "base64",
        "media_type": "image/png",
        "data": base64.b64encode(data).decode(),
    }
    return {"type": "image", "source": source}


def test_two_large_images_leave_the_database_small(recorder: Recorder, paths: Paths) -> None:
    """Users' report 25: growth under 10 % of the payload, caption searchable, image once."""
    data = picture(657_000)
    payload = len(base64.b64encode(data))
    assert payload > 876_000
    content = [{"type": "text", "text": CAPTION}, image(data)]
    messages = [result(content, 1), result(content, 2)]
    recorder.record_request("s", incoming(messages))
    recorder.close()
    database = os.path.getsize(f"{paths.sessions_dir}/s.v4.db")
    assert database < payload * 0.1
    (file,) = Path(paths.blobs_dir).iterdir()
    assert file.read_bytes() == data
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    rows = stored(paths)
    assert [row.text for row in rows if row.kind == "tool_result"] == [CAPTION, CAPTION]
    images = [row for row in rows if row.kind == "image"]
    assert [row.blob_ids for row in images] == [(file.stem,), (file.stem,)]
    assert images[0].text == f"[image image/png, {len(data)} bytes, blob {file.stem}]"


def test_a_resent_image_adds_nothing(recorder: Recorder, paths: Paths) -> None:
    """Design, differences 6: images are kept once; a resent history adds nothing."""
    first = [result([image(picture(9000))])]
    recorder.record_request("s", incoming(first))
    recorded = recorder.record_request("s", incoming([*first, user("what is it?")]))
    assert recorded.new_rows == 1
    assert recorder.record_request("t", incoming(first)).new_rows == 1
    assert len(list(Path(paths.blobs_dir).iterdir())) == 1, "one file for two sessions"


def test_base64_inside_a_text_is_taken_out_and_the_words_stay(
    recorder: Recorder, paths: Paths
) -> None:
    """Users' report 25: base64 stored as text, twice."""
    data = picture(400_000)
    run = base64.b64encode(data).decode()
    text = f"before\n![plot](data:image/png;base64,{run}) after\n{run}\nend"
    recorder.record_request("s", incoming([user(text)]))
    (row,) = stored(paths)
    (blob_id,) = row.blob_ids
    line = f"[base64 image/png, {len(data)} bytes, blob {blob_id}]"
    assert row.text == f"before\n![plot](data:image/png;base64,{line}) after\n{line}\nend"
    blob = find_blob(paths, blob_id)
    assert blob is not None and blob.data == data
    assert recorder.record_request("s", incoming([user(text)])).new_rows == 0


@pytest.mark.parametrize(
    "text",
    [
        "=" * 20_000,
        "0123456789abcdef" * 2_000,
        "x" * 20_000,
        "word and word " * 2_000,
        ("Ab1+" * 2_000 + " ") * 3,
        "sk_Ab1" * 100,
    ],
    ids=["ruler", "hex dump", "one letter", "words", "runs just too short", "short"],
)
def test_what_only_looks_alike_stays_text(text: str) -> None:
    """Ours: verbatim unless it is a payload."""
    assert take_out_runs(KEY, text) == (text, ())


def test_a_run_that_cannot_be_decoded_is_kept_as_the_text_it_is(paths: Paths) -> None:
    """Ours: an output cut in the middle of base64 loses nothing."""
    run = "Ab1+" * 3_000 + "A"
    text, (blob,) = take_out_runs(KEY, f"x {run} y")
    assert (blob.media, blob.data) == ("text/plain", run.encode())
    assert text == f"x [base64 text/plain, {len(run)} bytes, blob {blob.id}] y"


@given(st.text(alphabet=string.ascii_letters + string.digits + "+/=\n ", max_size=300))
def test_short_texts_are_never_touched(text: str) -> None:
    """Ours: keys, hashes and tokens stay where people look for them."""
    assert take_out_runs(KEY, text) == (text, ())


@pytest.mark.parametrize(
    ("data", "media"),
    [
        (b"\x89PNG\r\n\x1a\n..", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8", "image/webp"),
        (b"%PDF-1.7", "application/pdf"),
        (b"anything", ""),
    ],
)
def test_a_payload_without_a_type_is_told_by_its_first_bytes(data: bytes, media: str) -> None:
    """Ours: a blob's name ends so that a person can open it."""
    assert media_of(data) == media


@pytest.mark.parametrize("blob_id", ["", "../../etc/passwd", "0" * 15, "A" * 16, "0" * 16])
def test_an_id_that_is_none_finds_nothing(paths: Paths, blob_id: str) -> None:
    """Context store contract, Search: `smart_compact_get` takes ids from a model."""
    assert find_blob(paths, blob_id) is None


def test_the_contract_column_names_the_blob(recorder: Recorder, paths: Paths) -> None:
    """Context store contract, Schema: `messages.blob_id`."""
    recorder.record_request("s", incoming([result([image(picture(900))])]))
    with open_session(paths, "s") as reader:
        (found,) = reader.connection.execute("SELECT blob_id FROM messages").fetchone()
    (file,) = Path(paths.blobs_dir).iterdir()
    assert found == file.stem
