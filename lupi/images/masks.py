"""Masks that are not plain pictures: trimaps, polygons, run lengths. Each is a source: read late, named by its content."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lupi.engine.identity import digest_of
from lupi.images.images import ImageReadError, read_image, source_digest, source_name


@dataclass(frozen=True)
class LabelMask:
    """Pixels of a picture that have one of some values, e.g. 1 (pet) and 3 (border) of a trimap."""

    path: str
    values: tuple[int, ...]

    def read(self) -> np.ndarray:
        """Boolean mask."""
        return np.isin(read_image(self.path), self.values)

    def digest(self) -> str:
        """Name of the content."""
        return digest_of("labels", source_digest(self.path), list(self.values))

    def __str__(self) -> str:
        return source_name(self.path)


@dataclass(frozen=True)
class PolygonMask:
    """The union of polygons; each is a flat list x0, y0, x1, y1, ... as in COCO."""

    polygons: tuple[tuple[float, ...], ...]
    shape: tuple[int, int]

    def read(self) -> np.ndarray:
        """Boolean mask: pixels whose centre lies inside, and the outline.

        Examples
        --------
        >>> from lupi.images.masks import PolygonMask
        >>> PolygonMask(((1, 1, 3, 1, 3, 3, 1, 3),), (5, 5)).read().sum()
        np.int64(9)
        """
        from PIL import Image, ImageDraw

        picture = Image.new("1", self.shape[::-1])
        for polygon in self.polygons:
            ImageDraw.Draw(picture).polygon([(x, y) for x, y in zip(polygon[::2], polygon[1::2])], fill=1, outline=1)
        return np.array(picture)

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
        >>> from lupi.images.masks import RunLengthMask
        >>> RunLengthMask((1, 2, 3), (2, 3)).read().astype(int)
        array([[0, 1, 0],
               [1, 0, 0]])
        """
        counts = unpack_counts(self.counts) if isinstance(self.counts, str) else list(self.counts)
        if min(counts, default=0) < 0 or sum(counts) != self.shape[0] * self.shape[1]:
            raise ImageReadError(
                f"run lengths add up to {sum(counts)}, the mask has {self.shape[0] * self.shape[1]} pixels."
            )
        values = np.arange(len(counts)) % 2 == 1
        return np.repeat(values, counts).reshape(self.shape[::-1]).T.copy()

    def digest(self) -> str:
        """Name of the content."""
        counts = self.counts if isinstance(self.counts, str) else list(self.counts)
        return digest_of("runs", counts, list(self.shape))


def unpack_counts(text: str) -> list[int]:
    """Run lengths from COCO's string: six bits a letter, five of value, and from the fourth on differences to two before.

    Examples
    --------
    >>> from lupi.images.masks import unpack_counts
    >>> unpack_counts("123")
    [1, 2, 3]
    """
    counts: list[int] = []
    letters = iter(text)
    for letter in letters:
        value = shift = 0
        while True:
            bits = ord(letter) - 48
            if not 0 <= bits < 64:
                raise ImageReadError(f"run lengths contain the letter {letter!r}, which COCO's format does not use.")
            value |= (bits & 0x1F) << shift
            shift += 5
            if not bits & 0x20:
                if bits & 0x10:
                    value -= 1 << shift
                break
            letter = next(letters, None)
            if letter is None:
                raise ImageReadError("run lengths end in the middle of a number.")
        counts.append(value + counts[-2] if len(counts) > 2 else value)
    return counts
