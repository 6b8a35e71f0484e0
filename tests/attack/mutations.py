"""Damage, by a seeded generator: to bytes, to text and to JSON values."""

import copy
import json

# What damaged or hostile files put in place of a number or a name.
TOKENS = (
    "", "0", "-1", "-0", "1e400", "-1e400", "nan", "NaN", "Infinity", "1_0", "0x10", "1e-320", "9" * 30, "9" * 400, "9" * 5000,
    "2147483648", "1000000000", "9223372036854775808", "true", "null", "../x", "../../x", "/x", "/etc/passwd", "~/x", "C:\\x", ".",
    "..", "é", "\u2028", "\u0661", "\ud7ff", "\ufeff", "\0", "\r", "\n", "\t", " ", '"', "'", ",", ",,", "&x;", "<a>", "]]>", "%s",
    "{}", "[]", "[" * 3000, "x" * 300, "x" * 5000, "a,b", "1 2", "\x1c", "\x85",
)  # fmt: skip
VALUES = (
    None, True, False, 0, 1, 2, 7, -1, 1.5, -0.0, 1e308, float("nan"), float("inf"), 10**9, 2**31, 2**63, 10**18, 10**400, "", "1",
    "a.png", "../a.png", "/a.png", "\0", "\ud800", "é", "0", "o" * 50, "PPPP", [], [1], [[]], [0, 0, 0, 0], [1, 2, 3, 4], {},
    [1, 1, 3, 1, 3, 3], [[1, 1, 3, 1, 3, 3]], [1e9] * 6, {"size": [6, 8], "counts": [48]}, {"size": [6, 8], "counts": "o"},
    {"id": 1},
)  # fmt: skip


def pick(rng, values):
    """One of some values, as it is."""
    return values[int(rng.integers(len(values)))]


def damaged_bytes(rng, data):
    """One to three of: flips, a cut, a lost or doubled slice, noise, a token or another small number over a word."""
    for _ in range(pick(rng, (1, 1, 1, 2, 3))):
        start, stop = sorted(int(v) for v in rng.integers(0, len(data) + 1, 2))
        kind = int(rng.integers(12))
        if kind == 0 and data:
            flipped = bytearray(data)
            for place in rng.integers(0, len(data), int(rng.integers(1, 5))):
                flipped[place] ^= 1 << int(rng.integers(8))
            data = bytes(flipped)
        elif kind == 1:
            data = data[:stop]
        elif kind == 2:
            data = data[:start] + data[min(stop, start + int(rng.integers(1, 20))) :]
        elif kind == 3:
            data = data[:stop] + data[start:stop] + data[stop:]
        elif kind == 4:
            data = data[:start] + rng.bytes(int(rng.integers(1, 9))) + data[start:]
        elif kind == 5:
            data = data[:start] + pick(rng, TOKENS).encode("utf-8", "surrogatepass") + data[start:]
        elif kind <= 7:
            data = _word_replaced(rng, data, pick(rng, TOKENS), _is_word)
        else:
            number = pick(rng, (rng.integers(-1, 12), rng.integers(0, 400), round(rng.normal(scale=9), 2)))
            data = _word_replaced(rng, data, str(number), _is_digit)
    return data


def _word_replaced(rng, data, new, is_part):
    """Other text in place of one run of letters or digits: what hits single fields."""
    places = [k for k in range(len(data)) if is_part(data[k]) and (k == 0 or not is_part(data[k - 1]))]
    if not places:
        return data
    start = stop = pick(rng, places)
    while stop < len(data) and is_part(data[stop]):
        stop += 1
    return data[:start] + new.encode("utf-8", "surrogatepass") + data[stop:]


def _is_digit(byte):
    return byte in b"0123456789."


def _is_word(byte):
    return chr(byte).isalnum() or byte in b".-_"


def damaged_json(rng, value):
    """A JSON value with one to three places changed: another type or number, lost, doubled, or nested deeply."""
    value = copy.deepcopy(value)
    for _ in range(pick(rng, (1, 1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return value
        parent, key = pick(rng, places)
        kind = int(rng.integers(10))
        if kind == 0:
            del parent[key]
        elif kind == 1 and isinstance(parent, list):
            parent.insert(key, copy.deepcopy(parent[key]))
        elif kind == 2:
            for _ in range(int(pick(rng, (1, 5, 100)))):
                parent[key] = [parent[key]]
        elif kind == 3:
            other, place = pick(rng, places)
            # Copied, so that no value contains itself.
            parent[key] = copy.deepcopy(other[place]) if other is not parent else pick(rng, VALUES)
        elif kind == 4 and isinstance(parent[key], int | float):
            parent[key] = parent[key] * float(rng.normal(scale=3)) if abs(parent[key]) < 1e300 else 0
        else:
            parent[key] = copy.deepcopy(pick(rng, VALUES))
    return value


def _places(value):
    """All pairs (container, key); without recursion, as values may be nested deeply."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        pairs = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
        for key, inner in pairs:
            yield item, key
            waiting.append(inner)


def json_bytes(value):
    """A JSON file with this content; 10**400 is written in digits, lone surrogates as escapes."""
    return json.dumps(value).encode()
