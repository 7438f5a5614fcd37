"""Executed notebooks as pages: nbconvert makes HTML of the cells, and here it gets a head, a frame and its links."""

from __future__ import annotations

import html
import importlib.metadata
import json
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jinja2
from bs4 import BeautifulSoup, Tag
from nbconvert import HTMLExporter
from nbconvert.filters import markdown2html
from pygments.formatters import HtmlFormatter
from pygments.token import STANDARD_TYPES

from coursesite.run import Executed
from coursesite.widgets import PLAYER, Page
from reqpool.notebook import embedded
from reqpool.player.assets import CSS, ESM
from reqpool.player.tape import encode
from reqpool.scenarios import alloc_and_free

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FIGURES = ROOT / "figures"
VIEW = "application/vnd.jupyter.widget-view+json"
CODE_STYLES = ("default", "github-dark")  # of Pygments: for light and for dark pages
CHECKED = (
    '<p class="hint">An answer is examined in a live notebook: <a href="index.html#live">how to run it live</a>.</p>'
)


@dataclass
class Chapter:
    """
    Attributes:
        article: its cells as HTML.
        contents: (anchor, heading) of its sections.
        anchors: every place in it to which a link can lead.
        able: what one will be able to do, as HTML.
        css: what its outputs bring along, once each.
        pictures: the files that it shows, by the name they get in the site.
    """

    name: str
    article: str
    title: str
    contents: list[tuple[str, str]]
    anchors: list[str]
    able: list[str]
    minutes: str | None
    css: str
    pictures: dict[str, Path] = field(default_factory=dict)

    @property
    def page(self) -> str:
        return f"{self.name}.html"

    @property
    def number(self) -> str | None:
        """None: a page beside the course, such as the glossary."""
        first = self.name.split("_")[0]
        return first if first.isdigit() else None


def chapter(executed: Executed, folder: Path) -> Chapter:
    """The page of a notebook that lies in this folder."""
    soup = BeautifulSoup(cells(executed), "html.parser")
    set_up(soup)
    anchors(soup)
    links(soup)
    tables(soup)
    stills(soup)
    css = sheets(soup)
    title = soup.h1.get_text() if soup.h1 else executed.name
    first = soup.h1.find_parent(class_="text_cell") if soup.h1 else None
    able = first.find("ul") if first else None
    minutes = re.search(r"(\d+) minutes", first.get_text()) if first else None
    return Chapter(
        name=executed.name,
        pictures=pictures(soup, folder),
        article=str(soup),
        title=title,
        contents=[
            (str(head["id"]), head.get_text()) for head in soup.find_all("h2") if not head.find_parent("details")
        ],
        anchors=[str(one["id"]) for one in soup.select("[id]") if not one.find_parent("template")],
        able=[item.decode_contents().rstrip(",. \n") for item in able.find_all("li")] if able else [],
        minutes=minutes and minutes[1],
        css=css,
    )


def cells(executed: Executed) -> str:
    """The cells as nbconvert writes them, the widgets among their outputs as HTML."""
    page = Page(executed.widgets, executed.questions)
    for cell in executed.notebook.cells:
        for output in cell.get("outputs", []):
            if VIEW in output.get("data", {}):
                shown = page.view(output.data[VIEW]["model_id"])
                output.data = {"text/html": shown + CHECKED * ("Not attempted" in shown)}
    exporter = HTMLExporter(
        template_name="course",
        extra_template_basedirs=[str(HERE / "templates")],
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    return exporter.from_notebook_node(executed.notebook)[0]


# ---- what nbconvert leaves to be done --------------------------------------------------------------------------------


def set_up(soup: BeautifulSoup) -> None:
    """Fold the set-up cell and the text before it: on a page there is nothing to set up."""
    for cell in soup.select(".celltag_setup"):
        fold = soup.new_tag("details", attrs={"class": "setup"})
        summary = soup.new_tag("summary")
        summary.string = "Set-up, for a live notebook"
        cell.insert_before(fold)
        fold.append(summary)
        before = fold.find_previous_sibling(class_="cell")
        if isinstance(before, Tag) and "text_cell" in before["class"] and before.h2:
            fold.append(before)
        fold.append(cell)


def anchors(soup: BeautifulSoup) -> None:
    """A heading that comes twice has a number behind its anchor from the second time on; no sign behind any heading."""
    for sign in soup.select(".anchor-link"):  # without them nbconvert makes no anchors
        sign.decompose()
    seen: dict[str, int] = {}
    for head in soup.select("[id]"):
        anchor = str(head["id"])
        seen[anchor] = seen.get(anchor, 0) + 1
        if seen[anchor] > 1 and head.name in ("h1", "h2", "h3", "h4", "h5", "h6"):
            head["id"] = f"{anchor}-{seen[anchor]}"


def links(soup: BeautifulSoup) -> None:
    """To another page, in place of its notebook or Markdown file."""
    for link in soup.find_all("a", href=True):
        link["href"] = re.sub(r"^(?:\./)?(\w+)\.(?:ipynb|md)(?=#|$)", r"\1.html", str(link["href"]))


def tables(soup: BeautifulSoup) -> None:
    """A table that is too wide scrolls, and the page around it does not; an empty corner is the head of nothing."""
    for head in soup.find_all("th", string=""):
        head.name = "td"
    for table in soup.find_all("table"):
        if table.find_parent(["template", "table"]) or table.get("role") == "presentation":
            continue
        table.wrap(soup.new_tag("div", attrs={"class": "scrolls"}))
        stacked(table)


def stacked(table: Tag) -> None:
    """What to say, and where, is read on a phone, and too wide for it: there each cell is a line of its own."""
    heads = [head.get_text() for head in table.select("thead th")]
    if "where" not in heads:
        return
    table["class"] = "stacks"
    for row in table.select("tbody tr"):
        for head, cell in zip(heads, row.find_all("td"), strict=True):
            cell["data-head"] = head


def sheets(soup: BeautifulSoup) -> str:
    """Taken out of the outputs, of which each brings the same one again."""
    found = dict.fromkeys(style.extract().get_text().strip() for style in soup.find_all("style"))
    return "\n".join(found)


def stills(soup: BeautifulSoup) -> None:
    """Where motion is unwelcome, an embedded animation of the folder figures/ is the still of the same name."""
    for gif in sorted(FIGURES.glob("*.gif")):
        still = gif.with_suffix(".svg")
        for image in soup.find_all("img", src=embedded(gif)) if still.exists() else []:
            image.wrap(soup.new_tag("picture"))
            source = {"media": "(prefers-reduced-motion: reduce)", "srcset": embedded(still)}
            image.insert_before(soup.new_tag("source", attrs=source))


def pictures(soup: BeautifulSoup, folder: Path) -> dict[str, Path]:
    """Make every picture one of the site's own, and say which files that takes."""
    found: dict[str, Path] = {}
    for image in soup.find_all("img", src=True):
        if str(image["src"]).startswith("data:"):
            continue
        path = (folder / str(image["src"])).resolve()
        image["src"] = f"figures/{path.name}"
        found[str(image["src"])] = path
    return found


def joined(one: Chapter, chapters: Sequence[Chapter]) -> str:
    """Its article, in which links lead to headings by the names that these have here.

    nbconvert keeps the capitals and signs of a heading in its anchor, GitHub writes small letters, and one text is read
    in both. An anchor that is there is left as it is, and so is one that nobody has: the test of links says so.
    """
    known = {other.page: other.anchors for other in chapters}

    def lead(link: re.Match[str]) -> str:
        page, wanted = link["page"], html.unescape(link["anchor"])
        there = known.get(page or one.page, [])
        alike = (anchor for anchor in there if as_on_github(anchor) == as_on_github(wanted))
        found = wanted if wanted in there else next(alike, wanted)
        return f'href="{page}#{html.escape(found)}"'

    return re.sub(r'href="(?P<page>(?:\w+\.html)?)#(?P<anchor>[^"]+)"', lead, one.article)


def as_on_github(anchor: str) -> str:
    return re.sub(r"[^\w-]", "", unquote(anchor).lower())


# ---- whole pages -----------------------------------------------------------------------------------------------------


def render(chapters: Sequence[Chapter]) -> dict[str, str]:
    """Every page of the site, by its file name."""
    loader = jinja2.FileSystemLoader(HERE / "templates")
    environment = jinja2.Environment(
        loader=loader, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    shared = {"css": sheet(), "js": script(), "chapters": chapters, "version": version(), "repository": repository()}
    pages = {}
    course = [one for one in chapters if one.number]
    following = zip([None, *course[:-1]], course, [*course[1:], None], strict=True)
    for before, one, after in [*following, *((None, one, None) for one in chapters if not one.number)]:
        around = {"title": f"{one.title} · reqpool", "chapter": one, "before": before, "after": after}
        around |= {"article": joined(one, chapters), "css": f"{shared['css']}\n{one.css}"}
        pages[one.page] = environment.get_template("chapter.html.j2").render(shared | around)
    front = {"title": "reqpool: where an engine keeps your tokens", "chapter": None, "picture": front_picture()}
    tape = encode(alloc_and_free())
    player = PLAYER.format(tape=tape, options=json.dumps({"step": 4, "speed": 2, "group": ""}).replace('"', "&quot;"))
    pages["index.html"] = environment.get_template("front.html.j2").render(shared, player=player, **front)
    return pages


def sheet() -> str:
    return f"{CSS}\n{code_colours()}\n{(HERE / 'site.css').read_text(encoding='utf-8')}"


def script() -> str:
    """One module: the player's, and what the page does with it."""
    return f"{ESM}\n{(HERE / 'site.js').read_text(encoding='utf-8')}"


def code_colours() -> str:
    """One rule for each kind of token that is coloured in light or in dark pages."""
    light, dark = (HtmlFormatter(style=name).style for name in CODE_STYLES)
    rules = []
    for token, short in STANDARD_TYPES.items():
        pair = [style.style_for_token(token) if short else {} for style in (light, dark)]
        colours = [one.get("color") for one in pair]
        if short and any(colours):
            by_theme = ", ".join(f"#{colour}" if colour else "var(--ink)" for colour in colours)
            weight = "; font-weight: 600" if pair[0].get("bold") else ""
            rules.append(f".highlight .{short} {{ color: light-dark({by_theme}){weight}; }}")
    return "\n".join(rules)


def version() -> str:
    return importlib.metadata.version("reqpool")


def repository() -> str | None:
    """The address in pyproject.toml, once there is one."""
    for line in importlib.metadata.metadata("reqpool").get_all("Project-URL") or []:
        name, address = line.split(", ", 1)
        if name == "Repository":
            return address
    return None


def front_picture() -> dict[str, Any] | None:
    """The README's first picture, with its sentence; in place of an animation its still, where motion is unwelcome."""
    readme = BeautifulSoup(markdown2html((ROOT / "README.md").read_text(encoding="utf-8")), "html.parser")
    image = next((one for one in readme.find_all("img") if (ROOT / str(one["src"])).is_file()), None)
    if image is None:
        return None
    name, still = str(image["src"]), Path(str(image["src"])).with_suffix(".svg").as_posix()
    if not name.endswith(".gif"):
        return {"name": name, "says": image["alt"], "size": None, "still": None}
    size = struct.unpack("<HH", (ROOT / name).read_bytes()[6:10])
    return {"name": name, "says": image["alt"], "size": size, "still": still if (ROOT / still).is_file() else None}
