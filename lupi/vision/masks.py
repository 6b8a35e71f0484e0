"""Masks that are not plain pictures: trimaps, polygons, run lengths. Each is a source: read late, named by its content."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lupi.files import digest_of
from lupi.vision.images import ImageReadError, check_pixels, read_image, source_digest, source_name


@dataclass(frozen=True)
class LabelMask:
    """Pixels of a picture that have one of some values, e.g. 1 (pet) and 3 (border) of a trimap."""

    path: str
    values: tuple[int, ...]

    def read(self) -> np.ndarray:
        """Boolean mask."""
        pixels = read_image(self.path)
        if pixels.ndim == 3 and (pixels != pixels[:, :, :1]).any():
            raise ImageReadError(f"{self.path} is a colored picture, but one gray value must label each pixel.")
        return np.isin(pixels if pixels.ndim == 2 else pixels[:, :, 0], self.values)

    def digest(self) -> str:
        """Name of the content."""
        return digest_of("labels", source_digest(self.path), list(self.values))

    def __str__(self) -> str:
        return source_name(self.path)


# Corners times rows that are drawn within seconds: Pillow visits every edge for every row.
_MOST_EDGE_ROWS = 10**9


@dataclass(frozen=True)
class PolygonMask:
    """The union of polygons; each is a flat list x0, y0, x1, y1, ... as in COCO."""

    polygons: tuple[tuple[float, ...], ...]
    shape: tuple[int, int]

    def read(self) -> np.ndarray:
        """Boolean mask: pixels whose center lies inside, and the outline.

        Examples
        --------
        >>> from lupi.vision.masks import PolygonMask
        >>> PolygonMask(((1, 1, 3, 1, 3, 3, 1, 3),), (5, 5)).read().sum()
        np.int64(9)
        """
        self.check()
        from PIL import Image, ImageDraw

        picture = Image.new("1", self.shape[::-1])
        for polygon in self.polygons:
            ImageDraw.Draw(picture).polygon([(x, y) for x, y in zip(polygon[::2], polygon[1::2])], fill=1, outline=1)
        return np.array(picture)

    def check(self) -> None:
        """Refuse what would ask for too much memory or time, or for numbers that no image has."""
        height, width = self.shape
        check_pixels(height, width, "a mask of polygons")
        if sum(map(len, self.polygons)) * height > 2 * _MOST_EDGE_ROWS:
            raise ImageReadError(
                f"a mask of polygons has {sum(map(len, self.polygons)) // 2} corners in {height} rows, too many to draw; "
                "give run lengths instead."
            )
        for polygon in self.polygons:
            far = [v for v, side in zip(polygon, (width, height) * len(polygon)) if not -side <= v <= 2 * side]
            if far:
                raise ImageReadError(
                    f"a polygon has the coordinate {far[0]!r}, far outside of its image of {height} x {width} pixels."
                )

    def digest(self) -> str:
        """Name of the content."""
        return digest_of("polygons", [list(p) for p in self.polygons], list(self.shape))


@dataclass(frozen=True)
class RunLengthMask:
    """Run lengths of COCO: counts of 0, 1, 0, 1, ... down the columns; a list, or COCO's compressed string."""

    counts: tuple[int, ...] | str
    shape: tuple[int, int]

    def read(self) -> np.ndarray:
        """Boolean mask.

        Examples
        --------
        >>> from lupi.vision.masks import RunLengthMask
        >>> RunLengthMask((1, 2, 3), (2, 3)).read().astype(int)
        array([[0, 1, 0],
               [1, 0, 0]])
        """
        counts = self.runs()
        values = np.arange(len(counts)) % 2 == 1
        return np.repeat(values, counts).reshape(self.shape[::-1]).T.copy()

    def runs(self) -> list[int]:
        """The run lengths, checked: they fill the mask."""
        pixels = self.shape[0] * self.shape[1]
        check_pixels(*self.shape, "a mask of run lengths")
        counts = unpack_counts(self.counts) if isinstance(self.counts, str) else list(self.counts)
        if min(counts, default=0) < 0:
            raise ImageReadError(f"run lengths contain {min(counts)}, but none can be negative.")
        if sum(counts) != pixels:
            raise ImageReadError(f"run lengths add up to {sum(counts)}, the mask has {pixels} pixels.")
        return counts

    def digest(self) -> str:
        """Name of the content."""
        counts = self.counts if isinstance(self.counts, str) else list(self.counts)
        return digest_of("runs", counts, list(self.shape))


# Five bits each: 40 bits hold every number of pixels, and their sums still fit into 64.
_MOST_LETTERS = 8


def unpack_counts(text: str) -> list[int]:
    """Run lengths from COCO's string: six bits a letter, five of value, and from the fourth on differences to two before.

    Examples
    --------
    >>> from lupi.vision.masks import unpack_counts
    >>> unpack_counts("123")
    [1, 2, 3]
    """
    codes = np.array([text]).view(np.uint32) if text else np.empty(0, dtype=np.uint32)
    bits = codes.astype(np.int64) - 48
    strange = np.flatnonzero((bits < 0) | (bits >= 64))
    if len(strange):
        raise ImageReadError(f"run lengths contain the letter {text[strange[0]]!r}, which COCO's format does not use.")
    last = np.flatnonzero(bits & 0x20 == 0)
    if len(bits) and (not len(last) or last[-1] != len(bits) - 1):
        raise ImageReadError("run lengths end in the middle of a number.")
    first = np.concatenate([[0], last + 1])[:-1]
    lengths = last - first + 1
    if lengths.max(initial=0) > _MOST_LETTERS:
        raise ImageReadError(f"run lengths contain a number of {lengths.max()} letters, larger than any image.")
    shift = 5 * (np.arange(len(bits)) - np.repeat(first, lengths))
    values = np.add.reduceat((bits & 0x1F) << shift, first) if len(first) else np.empty(0, dtype=np.int64)
    values -= np.where(bits[last] & 0x10, np.int64(1) << 5 * lengths, 0)
    if float(np.abs(values).max(initial=0)) * len(values) >= 2.0**62:
        raise ImageReadError("run lengths contain numbers larger than any image.")
    # The differences run along the odd places, and along the even ones from the third number on.
    for start in (1, 2):
        values[start::2] = np.cumsum(values[start::2])
    return values.tolist()
