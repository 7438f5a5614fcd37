"""`make figures`: every picture of the README and the course, the same each time. `--check` compares instead.

What a picture says for those who do not see it is kept in figures/captions.json; `--markdown` prints it as image lines.

An SVG is compared byte for byte. A GIF carries the digest of its drawings (every box and word, before any pixel), which
is the same on every machine, and the versions of Pillow and FreeType that made the pixels. Under the same versions the
pixels are compared one by one; under others the letters' edges may differ, and then number, size and times of the
frames are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from pictures import PICTURES
from raster import DRAWN_WITH, SCALE, decoded, gif, image

from reqpool.faulty import NoResetOnReuse
from reqpool.scenarios import alloc_and_free, chunked_prefill, late_write
from reqpool.scenarios.experiments import padding
from reqpool.scenarios.together import in_step, mark_wrong
from reqpool.trace import Event, Trace
from reqpool.views import caption
from reqpool.views.frame import SIDES, Pane, frames
from reqpool.views.scene import Scene, svg

FIGURES = Path(__file__).resolve().parent.parent / "figures"
CAPTIONS: dict[str, str] = json.loads((FIGURES / "captions.json").read_text(encoding="utf-8"))

STEP, LONG, LAST = 1200, 2800, 4000  # milliseconds
TELLING = ("refuse", "keep", "late_write", "reset", "pad_write")


# ---- the animations --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Story:
    """An animation: a frame for the state after every number of events of its panes' traces."""

    title: str
    panes: Sequence[Pane]

    @cached_property
    def scenes(self) -> list[Scene]:
        return frames(self.title, self.panes)

    @cached_property
    def durations(self) -> list[int]:
        """How long each frame is shown: longer where the point is, and where there is more to read."""
        return [self._duration(k) for k in range(len(self.scenes) - 1)] + [LAST]

    def _duration(self, k: int) -> int:
        events = [pane.trace[k - 1] for pane in self.panes if k]
        if any(event.kind in TELLING or _is_wrong(event) for event in events):
            return LONG
        return STEP + 300 * (max(len(caption(pane.trace, k)) for pane in self.panes) > 80)

    @property
    def digest(self) -> str:
        return sha256("".join(scene.digest for scene in self.scenes).encode()).hexdigest()[:32]


def _is_wrong(event: Event) -> bool:
    return bool(dict(event.facts).get("wrong"))


def alloc_free() -> Story:
    return Story("Rows are taken and given back", [Pane(alloc_and_free(), num_slots=14)])


def chunks() -> Story:
    return Story("A long prompt in chunks keeps its row", [Pane(chunked_prefill(), num_slots=13)])


def padding_row() -> Story:
    """Up to the first wrong letter: the rest only repeats it."""
    runs = [padding(where, max_new_tokens=3).trace for where in ("off: row 0 is a request's", "row 0")]
    broken, mended = in_step(*runs)
    texts = [dict(event.facts).get("texts", ()) for event in broken]
    end = next(k for k, lines in enumerate(texts, start=1) if any(wrong for *_, wrong in lines))
    panes = [("without a padding row", mark_wrong(broken, mended)), ("with row 0 as padding row", mended)]
    panes = [(heading, Trace(trace.first, trace.events[:end])) for heading, trace in panes]
    return Story(
        "Dummy entries write row 0: whose is it?",
        [Pane(trace, heading, place=place) for (heading, trace), place in zip(panes, SIDES, strict=True)],
    )


def reset_on_reuse() -> Story:
    broken, mended = in_step(late_write(NoResetOnReuse), late_write())
    panes = [Pane(broken, "without the reset on reuse"), Pane(mended, "with the reset on reuse")]
    return Story("A late write between free and alloc", panes)


STORIES: dict[str, Callable[[], Story]] = {
    "alloc_free.gif": alloc_free,
    "chunked_prefill.gif": chunks,
    "padding_row.gif": padding_row,
    "reset_on_reuse.gif": reset_on_reuse,
}
STILLS = {  # one frame of each, for paper, and for readers who have asked for less motion
    "alloc_free.svg": ("alloc_free.gif", 9),
    "chunked_prefill.svg": ("chunked_prefill.gif", 14),
    "padding_row.svg": ("padding_row.gif", 12),
    "reset_on_reuse.svg": ("reset_on_reuse.gif", 13),
}
NAMES = (*PICTURES, *STILLS, *STORIES)


# ---- building and comparing ------------------------------------------------------------------------------------------


def build(name: str) -> bytes:
    if name in PICTURES:
        return svg(PICTURES[name](CAPTIONS[name])).encode()
    if name in STILLS:
        story, k = STILLS[name]
        return svg(replace(STORIES[story]().scenes[k], title=CAPTIONS[name])).encode()
    story = STORIES[name]()
    return gif([image(scene) for scene in story.scenes], story.durations, comment(name, story.digest))


def comment(name: str, digest: str) -> str:
    """What a GIF carries besides its pixels."""
    return f"{CAPTIONS[name]}\ndrawing {digest}\n{DRAWN_WITH}"


def differs(name: str) -> str:
    """In what the file under version control differs from what is drawn now; empty if in nothing."""
    path = FIGURES / name
    if not path.exists():
        return "is missing"
    content = path.read_bytes()
    if name not in STORIES:
        return "" if content == build(name) else "is drawn otherwise now"
    pictures, durations, said = decoded(content)
    story = STORIES[name]()
    here = {(SCALE * scene.width, SCALE * scene.height) for scene in story.scenes}
    wanted = comment(name, story.digest).encode("ascii", "replace").decode()
    if said.splitlines()[:-1] != wanted.splitlines()[:-1]:
        return "is drawn otherwise now, or has another sentence"
    if (len(pictures), durations, {one.size for one in pictures}) != (len(story.scenes), story.durations, here):
        return "has other frames"
    if said.splitlines()[-1] != DRAWN_WITH:
        print(f"{name}: made with {said.splitlines()[-1]}, here is {DRAWN_WITH}: pixels are not compared")
        return ""
    now, _, _ = decoded(build(name))
    other = [k for k, (a, b) in enumerate(zip(pictures, now, strict=True)) if a.tobytes() != b.tobytes()]
    return f"has other pixels in frames {other}" if other else ""


def markdown(folder: str = "figures") -> str:
    return "\n".join(f"![{CAPTIONS[name]}]({folder}/{name})" for name in NAMES)


def main(arguments: Sequence[str]) -> int:
    if "--markdown" in arguments:
        print(markdown())
        return 0
    if "--check" in arguments:
        stale = {name: found for name in NAMES if (found := differs(name))}
        for name, found in stale.items():
            print(f"figures/{name} {found}; run make figures")
        return bool(stale)
    for name in NAMES:
        content = build(name)
        (FIGURES / name).write_bytes(content)
        print(f"figures/{name}: {len(content):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
