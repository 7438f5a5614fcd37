"""The player as HTML that needs no kernel and no other host: one page, or a piece of one for an output area."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from urllib.parse import quote

from reqpool.player.assets import CSS, ESM
from reqpool.player.question import past
from reqpool.player.tape import encode
from reqpool.trace import Trace

PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
html {{ color-scheme: light dark; }}
body {{ margin: 16px; background: #f7f8fa; }}
h1 {{ margin: 0 2px 10px; font: 600 17px system-ui, "DejaVu Sans", sans-serif; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #0d0f13; color: #eceff4; }} }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
{fragment}</main>
</body>
</html>
"""

# The tape is base64, so nothing in a trace can end the attribute, the element or the script. A page may hold several
# players, the same one twice too: each script mounts what bears its mark and is not mounted yet.
FRAGMENT = """\
<style>
{css}</style>
<div data-reqpool="{mark}" data-tape="{tape}">This player needs a browser that runs scripts.</div>
<script type="module">
{js}
for (const root of document.querySelectorAll('[data-reqpool="{mark}"][data-tape]')) {{
  const tape = root.dataset.tape;
  root.removeAttribute("data-tape");
  mount(root, tape, {{ speed: {speed}, step: {step}, group: "{group}", large: {large}, question: {question} }});
}}
</script>
"""


def to_html(
    trace: Trace,
    title: str = "reqpool player",
    *,
    step: int = 0,
    speed: float = 2.0,
    large: bool = False,
    question: Mapping[str, bool | list[int]] | None = None,
) -> str:
    """A complete page that plays the trace: from a file, from any server, in an output area, with no network.

    In `large` type it can be read from the back of a room; the reader may switch that on and off.
    With a `question`, which is a player's `pick`, `picked` and `mark`, it asks for a cell at this step instead, and
    nothing in the page tells what happens after it.
    """
    fragment = to_fragment(trace, step=step, speed=speed, large=large, question=question)
    return PAGE.format(title=escape(title), fragment=fragment)


# The page around it shows through: a frame and the document in it have to be of one colour scheme for that, whichever.
# The player in it asks the page around it whether it is dark. The frame is as high as what is in it; one that may not
# look outside, since it has no frameElement, keeps the height it was given.
FRAMED = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<style>
html {{ color-scheme: light; }}
body {{ margin: 0; background: transparent; }}
.reqpool-player {{ --tallest: 620px; }}
.players {{ display: flex; flex-wrap: wrap; gap: 10px 8px; }}
.players > section {{ flex: 1 1 {least}; min-width: 0; }}
.players > section:has(.large) {{ flex-basis: 100%; }}
.players > section > div:first-child {{ font: 14px/1.8 system-ui, "DejaVu Sans", sans-serif; color: #16191f; }}
.players > section:has([data-theme="dark"]) > div:first-child {{ color: #eceff4; }}
</style>
</head>
<body>
<div class="players">
{sections}</div>
<script>
const frame = window.frameElement;
const fit = () => frame.style.height = `${{Math.ceil(document.body.getBoundingClientRect().height) + 2}}px`;
if (frame) new ResizeObserver(fit).observe(document.body);
</script>
</body>
</html>
"""


def to_frame(
    traces: Trace | Sequence[Trace],
    labels: Sequence[str] = (),
    *,
    step: int = 0,
    speed: float = 2.0,
    least: str = "400px",
    title: str = "player",
) -> str:
    """An `<iframe>` with the players of one or several traces, which move together: what a front end can show that
    shows HTML but no third-party widget.

    Args:
        labels: HTML to stand above each player, none or one for each; nothing in it is escaped.
        least: the width below which players stand one above the other.

    Raises:
        ValueError: labels, but not one for each trace.
    """
    traces = [traces] if isinstance(traces, Trace) else list(traces)
    if labels and len(labels) != len(traces):
        raise ValueError(f"{len(labels)} labels for {len(traces)} traces, wanted none or one for each")
    players = [to_fragment(trace, step=step, speed=speed, group="frame") for trace in traces]
    heads = [f"<div>{label}</div>\n" for label in labels] or [""] * len(traces)
    sections = "".join(f"<section>\n{head}{one}</section>\n" for head, one in zip(heads, players, strict=True))
    page = escape(FRAMED.format(least=least, sections=sections))
    height = 440 + 34 * max((trace.first.table.shape[0] for trace in traces), default=0)
    style = f"width: 100%; height: {min(height, 1100)}px; border: 0; color-scheme: light"
    return f'<iframe title="{escape(title)}" srcdoc="{page}" style="{style}"></iframe>'


def to_fragment(
    trace: Trace,
    *,
    step: int = 0,
    speed: float = 2.0,
    group: str = "",
    large: bool = False,
    question: Mapping[str, bool | list[int]] | None = None,
) -> str:
    """The player alone, to be put into a page that exists; several in one page leave each other alone.

    Those of one group (any name) move together instead.
    """
    tape = encode(trace if question is None else past(trace, step))
    mark = hashlib.sha256(tape.encode()).hexdigest()[:16]
    asked = "null" if question is None else json.dumps(question)
    options = {"step": step, "speed": speed, "group": quote(group), "large": json.dumps(large), "question": asked}
    return FRAGMENT.format(css=CSS, js=ESM, mark=mark, tape=tape, **options)
