"""Targets: model files, whole or crafted, and `lupi.load`."""

import io
import json
import struct
import sys
import warnings
import zipfile
from copy import deepcopy

import numpy as np
from attack.harness import Target
from attack.mutations import damaged_json, pick
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import InconsistentVersionWarning

import lupi
from lupi.datasets import make_privileged
from lupi.tabular.model import TabularModel

X, Y, Z = make_privileged(24, 3, 2, random_state=0, return_X_y_privileged=True)
SCORES = "decision_function"


class Prepared:
    """Small models of several kinds: their files and what they answer."""

    def __init__(self, folder):
        self.path = folder / "model.lupi"
        models = [
            lupi.RankSVM().fit(X, Y),
            lupi.SVMPlus().fit(X, Y, privileged=Z),
            lupi.SVM2Plus(kernel="rbf").fit(sparse.csr_matrix(X), Y, privileged=Z),
            TabularModel(lupi.SurrogateClassifier("ridge")).fit(X, np.array(["no", "yes"])[Y], privileged=Z),
            RandomForestClassifier(2, max_depth=2, random_state=0).fit(X, Y),
        ]
        self.files, self.answers = [], []
        for model in models:
            lupi.save(model, self.path)
            self.files.append(self.path.read_bytes())
            self.answers.append(answer(model))

    def load(self, content):
        """The model of a file with this content."""
        self.path.write_bytes(content)
        with watched(), warnings.catch_warnings():
            # A file may say that it is of another version of scikit-learn, which warns then.
            warnings.simplefilter("ignore", InconsistentVersionWarning)
            return lupi.load(self.path)


def answer(model):
    return np.asarray(getattr(model, SCORES if hasattr(model, SCORES) else "predict_proba")(X))


class watched:
    """Python's own record of what is done: no file but the model is opened for writing, no program or connection started."""

    FORBIDDEN = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "socket.connect", "os.remove")
    on, installed, seen = False, False, []

    def __enter__(self):
        if not watched.installed:  # a hook cannot be taken away again
            sys.addaudithook(watched.hook)
            watched.installed = True
        watched.on, watched.seen = True, []

    def __exit__(self, *problem):
        watched.on = False
        assert not watched.seen, f"the file made the library do {watched.seen}"

    @staticmethod
    def hook(event, arguments):
        if watched.on and (event in watched.FORBIDDEN or (event == "open" and "w" in str(arguments[1]))):
            watched.seen.append((event, str(arguments)[:80]))


def make_flip(rng, prepared):
    """A file with one to three bytes changed, or cut, or grown: whatever a disk or a network does."""
    which = 0 if rng is None else int(rng.integers(len(prepared.files)))
    content = bytearray(prepared.files[which])
    if rng is None:
        return which, bytes(content)
    kind = int(rng.integers(8))
    if kind == 0:
        content = content[: int(rng.integers(len(content)))]
    elif kind == 1:
        place = int(rng.integers(len(content)))
        content[place:place] = rng.bytes(int(rng.integers(1, 9)))
    else:
        for place in rng.integers(0, len(content), 1 if kind < 6 else 3):
            content[place] ^= int(rng.integers(1, 256))
    return which, bytes(content)


def make_each_flip(rng, prepared, number):
    """Every bit of the smallest file, one after the other, then every length."""
    content = prepared.files[0]
    bit = number - 1
    if bit < 0:
        return 0, content
    if bit >= 8 * len(content):
        return 0, content[: (bit - 8 * len(content)) % len(content)]
    flipped = bytearray(content)
    # All places before the second bit of any, so that a short run sees them all.
    flipped[bit % len(content)] ^= 1 << (bit // len(content))
    return 0, bytes(flipped)


def attack_unchanged(case, prepared):
    """Loads with the same answers, or not at all."""
    which, content = case
    model = prepared.load(content)
    np.testing.assert_array_equal(answer(model), prepared.answers[which])


NAMES = (
    ("os", "system"), ("builtins", "eval"), ("builtins", "exec"), ("subprocess", "Popen"), ("lupi.persistence", "save"),
    ("shutil", "rmtree"), ("numpy", "load"), ("sklearn.base", "clone"), ("sklearn.datasets", "load_files"),
    ("lupi.files", "write_atomically"),
    ("scipy.sparse", "csr_matrix"), ("builtins", "list"), ("lupi.ranking.ranker", "RankSVM"), ("sklearn.svm", "SVC"), ("", ""),
    ("lupi.cli", "main"), ("this", "s"), ("numpy.random.mtrand", "RandomState"), ("functools", "partial"),
)  # fmt: skip
LOADERS = (
    "ObjectNode", "JsonNode", "FunctionNode", "TypeNode", "MethodNode", "PartialNode", "DictNode", "ListNode", "NdArrayNode",
    "SliceNode", "SetNode", "TupleNode", "CachedNode", "SparseMatrixNode", "ConstructorFromReduceNode", "TreeNode", "DtypeNode",
    "OperatorFuncNode", "RandomStateNode", "BytesNode", "nothing", "ReduceNode", "SGDNode", "MaskedArrayNode",
)  # fmt: skip


def parts_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return file.getvalue()


def make_crafted(rng, prepared):
    """An archive whose checksums are right and whose content is not: what someone writes on purpose."""
    which = 0 if rng is None else int(rng.integers(len(prepared.files)))
    parts = parts_of(prepared.files[which])
    if rng is None:
        return which, packed(parts), True
    schema = json.loads(parts["schema.json"])
    arrays = [name for name in parts if name.endswith((".npy", ".npz"))]
    kind = int(rng.integers(10))
    if kind <= 2:
        schema = damaged_json(rng, schema)
    elif kind == 3:
        node = pick(rng, nodes_of(schema))
        node["__module__"], node["__class__"] = pick(rng, NAMES)
    elif kind == 4:
        pick(rng, nodes_of(schema))["__loader__"] = pick(rng, LOADERS)
    elif kind == 5:
        nodes = nodes_of(schema)
        pick(rng, nodes).update(deepcopy(pick(rng, nodes)))
    elif kind == 6:
        return which, crafted_archive(rng, parts), False
    elif arrays:
        name = pick(rng, arrays)
        parts[name] = crafted_array(rng, parts[name], kind)
        return which, packed(parts), kind == 9
    parts["schema.json"] = json.dumps(schema).encode()
    return which, packed(parts, pick(rng, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))), False


def nodes_of(schema):
    """All parts of a description that name a class."""
    waiting, found = [schema], []
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            found += [part] if "__class__" in part else []
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return found


def crafted_array(rng, part, kind):
    """Another shape or type in the header, or other numbers, in an array or a packed sparse matrix."""
    if part.startswith(b"PK"):
        inner = parts_of(part)
        name = pick(rng, list(inner))
        return packed({**inner, name: crafted_array(rng, inner[name], kind)}, zipfile.ZIP_DEFLATED)
    start = 10 + struct.unpack("<H", part[8:10])[0]
    if kind < 9:
        shape = pick(rng, ("(10000000000000,)", "(-1,)", "(2, 999999999999)", "(1e3,)", "()", "(0,)", "[]", "(" * 90))
        dtype = pick(rng, ("<f8", "|O", "<U9", ">i4", "f8" * 40, "|V1000000000", "<M8[s]"))
        header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
        header += " " * (63 - (10 + len(header)) % 64) + "\n"
        return part[:8] + struct.pack("<H", len(header)) + header.encode() + part[start:]
    numbers = bytearray(part[start:])
    for place in rng.integers(0, max(len(numbers), 1), 4):
        numbers[place : place + 1] = rng.bytes(1) if numbers else b""
    return part[:start] + bytes(numbers)


def crafted_archive(rng, parts):
    """Bombs, nesting, coded or doubled parts, and packings that Python does not know."""
    kind = int(rng.integers(6))
    if kind == 0:
        return packed({**parts, "zeros.npy": bytes(int(rng.integers(3, 9)) * 10**6)}, zipfile.ZIP_DEFLATED)
    if kind == 1:
        depth = int(rng.integers(100, 40_000))
        return packed({**parts, "schema.json": b'{"content":' * depth + b"1" + b"}" * depth})
    if kind == 2:
        file = io.BytesIO(packed(parts))
        with zipfile.ZipFile(file, "a") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zipfile knows that this is odd
            archive.writestr("schema.json", b"{}")
        return file.getvalue()
    content = bytearray(packed(parts))
    place = content.rfind(b"PK\x01\x02")
    if kind == 3:
        content[place + 8] |= 1  # coded with a password
    elif kind == 4:
        content[place + 10] = int(rng.integers(1, 100))  # how it is packed
    else:
        content[place + 24 : place + 28] = struct.pack("<I", int(rng.integers(2**32)))  # its size
    return bytes(content)


def attack_crafted(case, prepared):
    """Refused, or made of trusted parts without any code of the file; numbers are the writer's, and are only tried out."""
    _, content, numbers_only = case
    model = prepared.load(content)
    if numbers_only:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                answer(model)
            except Exception:
                return


TARGETS = [
    Target("each bit", Prepared, make_each_flip, attack_unchanged, (ValueError,), lambda case: len(case[1])),
    Target("damaged", Prepared, make_flip, attack_unchanged, (ValueError,), lambda case: len(case[1])),
    Target("crafted", Prepared, make_crafted, attack_crafted, (ValueError,), lambda case: len(case[1])),
]
