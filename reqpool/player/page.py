"""The player as HTML that needs no kernel and no other host: one page, or a piece of one for an output area."""

import hashlib
from html import escape
from urllib.parse import quote

from reqpool.player.assets import CSS, ESM
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
  mount(root, tape, {{ speed: {speed}, step: {step}, group: "{group}" }});
}}
</script>
"""


def to_html(trace: Trace, title: str = "reqpool player", *, step: int = 0, speed: float = 2.0) -> str:
    """A complete page that plays the trace: from a file, from any server, in an output area, with no network."""
    return PAGE.format(title=escape(title), fragment=to_fragment(trace, step=step, speed=speed))


def to_fragment(trace: Trace, *, step: int = 0, speed: float = 2.0, group: str = "") -> str:
    """The player alone, to be put into a page that exists; several in one page leave each other alone.

    Those of one group (any name) move together instead.
    """
    tape = encode(trace)
    mark = hashlib.sha256(tape.encode()).hexdigest()[:16]
    return FRAGMENT.format(css=CSS, js=ESM, mark=mark, tape=tape, step=step, speed=speed, group=quote(group))
