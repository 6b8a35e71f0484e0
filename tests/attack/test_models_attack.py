"""A short attack on model files; `attack.harness` tells how to run the long one, which changes every bit of a file."""

import io
import json
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from attack.harness import run
from attack.models import TARGETS, Prepared, attack_unchanged, packed, parts_of

import lupi
from lupi.persistence import MOST_UNPACKED

DEFLATED = zipfile.ZIP_DEFLATED


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_models_are_the_same_or_refused(target):
    counts = run(target)
    assert counts.ends["answered"] > 0
    assert counts.ends.total() > counts.ends["answered"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("models"))


def test_bytes_changed_and_files_cut_all_over_a_model(prepared):
    content, refused, loaded = prepared.files[0], [], 0
    for place in range(0, len(content), 41):
        for damaged in (content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :], content[:place]):
            try:
                attack_unchanged((0, damaged), prepared)
                loaded += 1
            except ValueError as problem:
                refused.append(str(problem))
    assert all("is damaged or is not a model of lupi" in message for message in refused)
    assert 20 * loaded < len(refused)  # dates of parts, which nobody reads


def central(content, offset, value):
    """The archive with other bytes in the directory entry of its last part."""
    place = content.rfind(b"PK\x01\x02") + offset
    return content[:place] + value + content[place + len(value) :]


def claimed(parts):
    """Parts whose first array claims to have 7 TiB."""
    name = next(name for name in parts if name.endswith(".npy"))
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (962072674304,)})
    return packed({**parts, name: file.getvalue() + bytes(64)})


CRAFTED = {
    "a password": lambda parts: central(packed(parts), 8, b"\x01"),  # RuntimeError of zipfile
    "an unknown packing": lambda parts: central(packed(parts), 10, b"\x63"),  # NotImplementedError
    "a packing that it has not": lambda parts: central(packed(parts), 10, b"\x08"),  # zlib.error
    "7 TiB": claimed,  # MemoryError
    "nesting": lambda parts: packed({**parts, "schema.json": b"[" * 100_000 + b"]" * 100_000}),  # RecursionError
    "a number without an end": lambda parts: packed({**parts, "schema.json": b"9" * 10_000}),
    "no description": lambda parts: packed({name: part for name, part in parts.items() if name != "schema.json"}),
    "words as description": lambda parts: packed({**parts, "schema.json": b"\xff\xfe"}),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_archives_are_refused_with_the_documented_error(name, prepared):
    with pytest.raises(ValueError, match=r"is damaged or is not a model of lupi \(\w+: "):
        prepared.load(CRAFTED[name](parts_of(prepared.files[0])))


def test_a_bomb_is_not_unpacked(prepared, monkeypatch):
    parts = parts_of(prepared.files[0])
    bomb = packed({**parts, "zeros": bytes(2**20 + 2 * MOST_UNPACKED * len(prepared.files[0]))}, zipfile.ZIP_DEFLATED)
    for way in ("read", "open"):
        monkeypatch.setattr(zipfile.ZipFile, way, lambda *a: pytest.fail("it was unpacked"))
    with pytest.raises(ValueError, match=r"\d+ bytes would unpack to \d+"):
        prepared.load(bomb)
    monkeypatch.undo()
    # The same within a packed sparse matrix.
    sparse_file = parts_of(prepared.files[2])
    name = next(name for name in sparse_file if name.endswith(".npz"))
    inner = packed({"zeros.npy": bytes(2**24)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="would unpack to"):
        prepared.load(packed({**sparse_file, name: inner}))


def packed_each(zeros):
    return {f"{k}.npz": packed({"a": zeros}, DEFLATED) for k in range(9)}


BOMBS = {
    "in nested archives": lambda parts, zeros: {**parts, **packed_each(zeros)},
    "in archives of an archive": lambda parts, zeros: {**parts, "a": packed(packed_each(zeros))},
    "by references": lambda parts, zeros: {
        **parts,
        "a.npy": zeros,
        "schema.json": referring(parts["schema.json"], "a.npy"),
    },
}


def referring(schema, name):
    """A schema with further references to a member, as if by different objects."""
    nodes = [{"file": name, "__id__": k} for k in (0, 0, 0, 0, 1, 2, 3, 4, 5)]
    return json.dumps({**json.loads(schema), "more": nodes}).encode()


@pytest.mark.parametrize("name", BOMBS)
def test_all_that_a_file_unpacks_to_has_one_budget(name, prepared):
    """Each part is well within it, and all of them are not."""
    size = 2**19
    bomb = packed(BOMBS[name](parts_of(prepared.files[0]), bytes(size)), DEFLATED)
    assert size < 2**20 + MOST_UNPACKED * len(bomb) < 9 * size
    with pytest.raises(ValueError, match="would unpack to"):
        prepared.load(bomb)


def test_a_member_that_holds_more_than_it_claims_is_not_unpacked_any_further(prepared):
    """The size in the headers is a claim of whoever wrote them; all of 64 megabytes came to be before."""
    zeros = packed({"zeros": bytes(2**26)}, DEFLATED)
    size = struct.pack("<I", 2**26)
    assert zeros.count(size) == 2
    bomb = packed({**parts_of(prepared.files[0]), "a": zeros.replace(size, struct.pack("<I", 9))})
    tracemalloc.start()
    with pytest.raises(ValueError, match="Bad CRC"):
        prepared.load(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**23


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_packings_that_cannot_be_read_in_parts_are_refused(method, prepared):
    with pytest.raises(ValueError, match=f"packed by method {method}"):
        prepared.load(packed(parts_of(prepared.files[0]), method))


def test_a_sparse_matrix_that_leads_out_of_itself_is_refused(prepared):
    parts = parts_of(prepared.files[2])
    name = next(name for name in parts if name.endswith(".npz"))
    inner = parts_of(parts[name])
    header = 10 + struct.unpack("<H", inner["indices.npy"][8:10])[0]
    indices = np.frombuffer(inner["indices.npy"][header:], np.int32).copy()
    indices[0] = 10**6
    inner["indices.npy"] = inner["indices.npy"][:header] + indices.tobytes()
    with pytest.raises(ValueError, match="must be <"):
        prepared.load(packed({**parts, name: packed(inner)}))


def test_models_of_sparse_features_come_back(prepared):
    prepared.path.write_bytes(prepared.files[2])
    assert lupi.load(prepared.path).support_vectors_.format == "csr"
