"""A Scene as pixels, and pixels as a GIF: Pillow draws with the DejaVu fonts that matplotlib carries.

Twice as large as the scene, for a projector, and drawn twice as large again, for smooth edges.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import ceil, hypot, sqrt
from pathlib import Path as File

import matplotlib
import numpy as np
import PIL
from PIL import Image, ImageColor, ImageDraw, ImageFont, features

from reqpool.views.scene import HATCHINGS, Box, Item, Path, Scene, Shape, Words
from reqpool.views.theme import BACKGROUND, EMPTY, INK, LINE, OWNER_COLOURS, OWNER_TINTS, QUIET, WRONG

SCALE, SMOOTH = 2, 2
FACTOR = SCALE * SMOOTH
THEME = (BACKGROUND, INK, QUIET, EMPTY, LINE, WRONG, *OWNER_COLOURS, *OWNER_TINTS)
MANY = 1 << 16  # more colours than a frame has
FONTS = File(matplotlib.get_data_path()) / "fonts" / "ttf"
DRAWN_WITH = f"Pillow {PIL.__version__}, FreeType {features.version('freetype2')}"


def image(scene: Scene) -> Image.Image:
    size = (scene.width * FACTOR, scene.height * FACTOR)
    canvas = Image.new("RGB", size, BACKGROUND)
    pen = ImageDraw.Draw(canvas)
    for item in scene.items:
        _draw(canvas, pen, item)
    return canvas.reduce(SMOOTH)


@lru_cache(maxsize=64)
def font(size: float, bold: bool, mono: bool) -> ImageFont.FreeTypeFont:
    name = f"DejaVuSans{'Mono' if mono else ''}{'-Bold' if bold else ''}.ttf"
    return ImageFont.truetype(str(FONTS / name), round(size * FACTOR), layout_engine=ImageFont.Layout.BASIC)


def width_of(words: Words) -> float:
    """How wide the words really are, in the units of the scene."""
    return font(words.size, words.bold, words.mono).getlength(words.text) / FACTOR


def _draw(canvas: Image.Image, pen: ImageDraw.ImageDraw, item: Item) -> None:
    if isinstance(item, Words):
        _write(pen, item)
    elif isinstance(item, Shape):
        pen.polygon([_at(point) for point in item.points], fill=item.fill)
    elif isinstance(item, Path):
        _trace(pen, item.points, item.stroke, item.thick, item.dashed)
    else:
        _box(canvas, pen, item)


def _at(point: tuple[float, float]) -> tuple[int, int]:
    return round(point[0] * FACTOR), round(point[1] * FACTOR)


def _write(pen: ImageDraw.ImageDraw, item: Words) -> None:
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[item.anchor]
    letters = font(item.size, item.bold, item.mono)
    pen.text(_at((item.x, item.y)), item.text, fill=item.fill, font=letters, anchor=anchor)
    if item.struck:
        long = letters.getlength(item.text) / FACTOR
        left = item.x - {"start": 0, "middle": long / 2, "end": long}[item.anchor]
        y = item.y - 0.34 * item.size
        _trace(pen, ((left - 2, y), (left + long + 2, y)), item.fill, 1.2, False)


def _trace(
    pen: ImageDraw.ImageDraw, points: Sequence[tuple[float, float]], stroke: str, thick: float, dashed: bool
) -> None:
    wide = max(1, round(thick * FACTOR))
    if not dashed:
        pen.line([_at(point) for point in points], fill=stroke, width=wide, joint="curve")
        return
    for (x0, y0), (x1, y1) in pairwise(points):
        long = hypot(x1 - x0, y1 - y0)
        for start in range(0, ceil(long), 9):
            ends = [min(long, start + more) / long for more in (0, 5)]
            pen.line([_at((x0 + t * (x1 - x0), y0 + t * (y1 - y0))) for t in ends], fill=stroke, width=wide)


def _box(canvas: Image.Image, pen: ImageDraw.ImageDraw, item: Box) -> None:
    (left, top), (right, bottom) = _at((item.x, item.y)), _at((item.x + item.width, item.y + item.height))
    inside = (left, top, right - 1, bottom - 1)
    if item.fill in HATCHINGS:
        canvas.paste(_hatched(item.fill, right - left, bottom - top), (left, top))
    elif item.fill:
        pen.rounded_rectangle(inside, round(item.round * FACTOR), fill=item.fill)
    if item.stroke and item.dashed:
        x, y, far, low = item.x, item.y, item.x + item.width, item.y + item.height
        _trace(pen, ((x, y), (far, y), (far, low), (x, low), (x, y)), item.stroke, item.thick, True)
    elif item.stroke:
        half, wide = round(item.thick * FACTOR / 2), round(item.thick * FACTOR)
        outside = (left - half, top - half, right - 1 + half, bottom - 1 + half)
        pen.rounded_rectangle(outside, round(item.round * FACTOR) + half, outline=item.stroke, width=wide)


@lru_cache(maxsize=64)
def _hatched(name: str, width: int, height: int) -> Image.Image:
    period, angle, ground, stroke = HATCHINGS[name]
    tile = Image.new("RGB", (width, height), ground)
    pen, step = ImageDraw.Draw(tile), period * FACTOR * sqrt(2)
    for i in range(-ceil(height / step) - 1, ceil(width / step) + 1):
        x = i * step
        ends = (x + height, 0, x, height) if angle > 0 else (x, 0, x + height, height)
        pen.line(ends, fill=LINE, width=round(stroke * FACTOR))
    return tile


# ---- GIF -------------------------------------------------------------------------------------------------------------


def gif(frames: Sequence[Image.Image], durations: Sequence[int], comment: str) -> bytes:
    """An endless animation with one palette for all frames; durations in milliseconds."""
    colours, nearest = palette(frames), np.zeros(1 << 24, dtype=np.uint8)
    indexed = [_indexed(frame, colours, nearest) for frame in frames]
    out = io.BytesIO()
    indexed[0].save(
        out,
        format="GIF",
        save_all=True,
        append_images=indexed[1:],
        duration=list(durations),
        loop=0,
        optimize=True,  # what has not changed since the frame before is left transparent
        disposal=1,
        comment=comment.encode("ascii", "replace"),
    )
    return out.getvalue()


def palette(frames: Sequence[Image.Image], most: int = 96, apart: int = 24) -> np.ndarray:
    """The theme's colours, and then those that are there most often, each a little apart from the others: [n, 3]."""
    counts: Counter[tuple[int, ...]] = Counter()
    for frame in frames:
        counts.update(_counted(frame))
    chosen: list[tuple[int, ...]] = [rgb for colour in THEME if (rgb := ImageColor.getrgb(colour)) in counts]
    for colour in sorted(counts, key=lambda one: (-counts[one], one)):
        if all(sum(abs(a - b) for a, b in zip(colour, other, strict=True)) >= apart for other in chosen):
            chosen.append(colour)
        if len(chosen) == most:
            break
    return np.array(chosen, dtype=np.int32)


def _counted(frame: Image.Image) -> dict[tuple[int, ...], int]:
    found = frame.getcolors(MANY)
    if found is None:
        raise ValueError(f"a frame has more than {MANY} colours: it was not drawn from a scene")
    return {colour: count for count, colour in found if isinstance(colour, tuple)}  # numbers: not in an RGB frame


def _indexed(frame: Image.Image, colours: np.ndarray, nearest: np.ndarray) -> Image.Image:
    """The frame in these colours; `nearest` keeps what was looked up already, for all the 2^24 colours there are."""
    there = np.array(list(_counted(frame)), dtype=np.int32)
    nearest[_packed(there)] = np.abs(there[:, None, :] - colours[None, :, :]).sum(axis=2).argmin(axis=1)
    indexed = Image.frombytes("P", frame.size, nearest[_packed(np.asarray(frame, dtype=np.int32))].tobytes())
    indexed.putpalette(colours.astype(np.uint8).tobytes())
    return indexed


def _packed(colours: np.ndarray) -> np.ndarray:
    return colours[..., 0] << 16 | colours[..., 1] << 8 | colours[..., 2]


def decoded(content: bytes) -> tuple[list[Image.Image], list[int], str]:
    """The frames of a GIF, how long each is shown, and its comment."""
    with Image.open(io.BytesIO(content)) as animation:
        comment = animation.info.get("comment", b"").decode("ascii")
        frames, durations = [], []
        for k in range(animation.n_frames):
            animation.seek(k)
            frames.append(animation.convert("RGB"))
            durations.append(animation.info["duration"])
    return frames, durations, comment
