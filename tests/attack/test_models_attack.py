"""A short attack on model files; `attack.harness` tells how to run the long one, which changes every bit of a file."""

import io
import struct
import zipfile

import numpy as np
import pytest
from attack.harness import run
from attack.models import TARGETS, Prepared, attack_unchanged, packed, parts_of

import lupi
from lupi.persistence import MOST_UNPACKED


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
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *a: pytest.fail("it was unpacked"))
    with pytest.raises(ValueError, match=r"\d+ bytes would unpack to \d+"):
        prepared.load(bomb)
    monkeypatch.undo()
    # The same within a packed sparse matrix.
    sparse_file = parts_of(prepared.files[2])
    name = next(name for name in sparse_file if name.endswith(".npz"))
    inner = packed({"zeros.npy": bytes(2**24)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="would unpack to"):
        prepared.load(packed({**sparse_file, name: inner}))


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
