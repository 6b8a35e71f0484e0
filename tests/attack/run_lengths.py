"""COCO's run lengths, slowly, from their description: to compare with."""

import numpy as np


def runs_of(mask):
    """Lengths of runs of 0, 1, 0, ... down the columns."""
    flat = np.concatenate([[False], mask.T.ravel(), [not mask.T.ravel()[-1]]])
    return np.diff(np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1])])).tolist()


def pack_counts(counts):
    """COCO's compression, written from its description, to test the other direction."""
    text = ""
    for k, count in enumerate(counts):
        x = count - counts[k - 2] if k > 2 else count
        while True:
            bits, x = x & 0x1F, x >> 5
            more = x != -1 if bits & 0x10 else x != 0
            text += chr(bits + (0x20 if more else 0) + 48)
            if not more:
                break
    return text


def slow_counts(text):
    """COCO's decoder, letter by letter as in its C source."""
    counts, k = [], 0
    while k < len(text):
        value, shift, more = 0, 0, True
        while more:
            bits = ord(text[k]) - 48
            value |= (bits & 0x1F) << 5 * shift
            more = bool(bits & 0x20)
            k, shift = k + 1, shift + 1
            if not more and bits & 0x10:
                value |= -1 << 5 * shift
        counts.append(value + counts[-2] if len(counts) > 2 else value)
    return counts
