"""The site that `make site` writes, opened from the disk with the network cut: all chapters, as they are."""

import itertools
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import build_site
import pytest
from axe_playwright_python.base import AXE_SCRIPT
from bs4 import BeautifulSoup
from playwright.sync_api import ConsoleMessage, Locator, Page, Route

CHAPTERS = sorted(path.stem for path in build_site.NOTEBOOKS.glob("*.ipynb"))
PAGES = ["index", *CHAPTERS, *sorted(path.stem for path in build_site.NOTEBOOKS.glob("*.md"))]
LARGEST = 3_000_000

DRAWN = "[...document.querySelectorAll('.reqpool-player')].every((p) => p.dataset.lastStep)"
SETTLED = """async () => { // where the heading is that was asked for, once it stays there for a while
    const top = () => document.querySelector(":target").getBoundingClientRect().top;
    for (let before = NaN, still = 0; still < 20; before = top()) {
        await new Promise(requestAnimationFrame);
        still = top() === before ? still + 1 : 0;
    }
    return top();
}"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def site(jupyter_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build_site.build(build_site.executed(), folder)
    return folder


@cache
def parsed(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


class Reader:
    """A browser without a network that opens pages of the site; whatever a page complains of is kept."""

    def __init__(self, page: Page, site: Path) -> None:
        self.page, self.site = page, site
        self.refused: list[str] = []
        self.complaints: list[str] = []
        page.route("**/*", self.only_files)
        page.on("console", self.hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def only_files(self, route: Route) -> None:
        if route.request.url.startswith(self.site.as_uri()):
            return route.continue_()
        self.refused.append(route.request.url)
        route.abort()

    def hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def open(self, name: str) -> Page:
        self.page.goto((self.site / f"{name}.html").as_uri())
        self.page.wait_for_function(DRAWN)
        return self.page


@pytest.fixture
def reader(page: Page, site: Path) -> Iterator[Reader]:
    reader = Reader(page, site)
    yield reader
    assert reader.refused == []
    assert reader.complaints == []


def is_cell(form: Locator) -> bool:
    return form.locator("[data-asks]").count() > 0


def choose(form: Locator) -> None:
    if is_cell(form):
        form.locator("[data-row='0'][data-position='0']").click()
    else:
        form.locator("input[type=radio]").first.check()


def commit_all(page: Page) -> None:
    for form in page.locator("form.question").all():
        choose(form)
        form.locator("button[type=submit]").click()
    page.wait_for_function(DRAWN)


def players(page: Page) -> list[dict]:
    """Those with something to play; a question's table stays where it is."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.reqpool-player:not([data-pick])')].map(({ dataset }) => {
            const { group, step: start } = JSON.parse(dataset.options);
            const { theme, playing } = dataset;
            return { step: Number(dataset.step), last: Number(dataset.lastStep), playing, theme, group, start };
        })"""
    )


def press_everywhere(page: Page, button: str) -> None:
    """The button of every player, but of one only where several move together."""
    page.evaluate(
        """(text) => {
            const groups = new Set();
            for (const player of document.querySelectorAll('.reqpool-player:not([data-pick])')) {
                const { group } = JSON.parse(player.dataset.options);
                if (group && groups.has(group)) continue;
                groups.add(group);
                [...player.querySelectorAll('button')].find((one) => one.textContent === text).click();
            }
        }""",
        button,
    )


# ---- players ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["index", *CHAPTERS])
def test_every_player_plays_from_its_start_to_its_end(reader: Reader, name: str) -> None:
    reader.page.clock.install()  # so that a story of a minute takes no minute
    page = reader.open(name)
    commit_all(page)
    assert players(page), "a page of the course without a player"
    press_everywhere(page, "First step")
    assert {player["step"] for player in players(page)} == {0}
    press_everywhere(page, "Play")
    page.clock.run_for(1000 * (1 + max(player["last"] for player in players(page))))
    ended = players(page)
    assert [player["step"] for player in ended] == [player["last"] for player in ended]
    assert {player["playing"] for player in ended} == {"false"}


@pytest.mark.parametrize("name", PAGES)
def test_players_are_stepped_and_scrubbed_and_those_of_a_group_together(reader: Reader, name: str) -> None:
    page = reader.open(name)
    shown = page.locator(".reqpool-player:not([data-pick])")
    before = players(page)
    for i, start in enumerate(before):
        player = shown.nth(i)
        fellows = [
            j for j, other in enumerate(before) if j == i or (start["group"] and other["group"] == start["group"])
        ]
        longest = max(before[j]["last"] for j in fellows)
        player.get_by_role("slider", name="Step").fill("1" if longest > 1 else "0")
        player.get_by_role("button", name="Step forward").click()
        stepped = 2 if longest > 1 else min(1, longest)
        now = players(page)
        assert [now[j]["step"] for j in fellows] == [min(stepped, before[j]["last"]) for j in fellows]
        others = [j for j in range(len(before)) if j > i and j not in fellows]
        assert [now[j]["step"] for j in others] == [before[j]["step"] for j in others], "nobody else has moved"


# ---- questions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHAPTERS)
def test_questions_are_answered_and_explained_without_a_kernel(reader: Reader, name: str) -> None:
    page = reader.open(name)
    forms = page.locator("form.question").all()
    assert len(forms) >= 3
    for form in forms:
        button = form.locator("button[type=submit]")
        told, opened = form.locator(".told"), form.locator(".opened")
        assert told.inner_text() == "" and opened.inner_text() == ""
        button.click()
        assert "first." in told.inner_text()
        assert form.get_attribute("data-committed") is None
        choose(form)
        action = button.inner_text()
        button.click()
        said = told.inner_text()
        assert button.inner_text() == "Committed"
        if "prediction" in action:
            assert "You predicted" in said and "It happens" in said
            assert "What did you see?" in opened.inner_text()
        else:
            assert said.count("your answer") == 1 and said.count("✓ right") == 1
        button.click()
        assert told.inner_text() == said
        if is_cell(form):
            assert form.locator("[data-mark]").count() == 1
        else:
            assert form.locator("input[type=radio]:enabled").count() == 0


def test_a_right_and_a_wrong_answer_get_different_verdicts(reader: Reader) -> None:
    verdicts = set()
    for i in range(3):
        form = reader.open(PAGES[1]).locator("form.question").last
        form.locator("input[type=radio]").nth(i).check()
        form.locator("button[type=submit]").press("Enter")
        verdicts.add("✓ right, your answer" in form.locator(".told").inner_text())
    assert verdicts == {True, False}


# ---- one folder, and nothing else ------------------------------------------------------------------------------------


def loaded(page: BeautifulSoup) -> list[str]:
    """Every address that a browser fetches by itself."""
    found = [
        str(one[name]) for name in ("src", "srcset", "poster", "data") for one in page.find_all(attrs={name: True})
    ]
    found += [str(one["href"]) for one in page.find_all(["link", "base", "image", "use"], href=True)]
    sheets = [one.get_text() for one in page.find_all("style")] + [
        str(one["style"]) for one in page.find_all(style=True)
    ]
    return found + re.findall(r"""(?:\burl\(|@import)\s*['"]?([^'")\s]+)""", "\n".join(sheets))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_small_and_loads_nothing_from_outside_its_folder(site: Path, name: str) -> None:
    path = site / f"{name}.html"
    assert path.stat().st_size <= LARGEST
    page = parsed(path)
    for address in loaded(page):
        assert address.startswith(("data:", "#")) or (site / address).is_file(), address
    scripts = [one.get_text() for one in page.find_all("script")]
    assert not any(
        re.search(r"^\s*import\b|\bimport\(|\bfetch\(|XMLHttpRequest|WebSocket", one, re.M) for one in scripts
    )
    assert len(scripts) == 2, "one script for the theme, and one copy of the player's"
    assert len(page.find_all("style")) == 1


@pytest.mark.parametrize("name", PAGES)
def test_links_within_the_site_lead_somewhere(site: Path, name: str) -> None:
    dead = []
    for link in parsed(site / f"{name}.html").find_all(href=True):
        if "://" in str(link["href"]):
            continue
        file, _, anchor = str(link["href"]).partition("#")
        assert not file or (site / file).is_file(), link
        if anchor and not {anchor, unquote(anchor)} & ids(site / (file or f"{name}.html")):
            dead.append(str(link))
    assert dead == []


@cache
def ids(path: Path) -> set[str]:
    """What is in the page as it is opened: what a question opens later is not."""
    return {str(one["id"]) for one in parsed(path).find_all(id=True) if not one.find_parent("template")}


PLACES = ["00_start_here.html#Quiz", "02_alloc_and_free.html#Build-it", "04_padding_row.html#Change-it"]


@pytest.mark.parametrize("to", [*PLACES, "05_reset_on_reuse.html#Break-it", "#Where-people-go-wrong"])
def test_a_link_leads_to_its_heading_though_players_above_are_drawn_later(reader: Reader, to: str) -> None:
    reader.page.emulate_media(reduced_motion="no-preference")
    page = reader.open("for_teachers")
    page.locator(f'article a[href="{to}"]').first.click()
    page.wait_for_function(f"{DRAWN} && document.querySelector(':target')")
    top = page.evaluate(SETTLED)
    assert 0 <= top <= 120


def test_a_reader_who_scrolls_is_not_taken_back_to_the_heading(reader: Reader) -> None:
    reader.page.add_init_script("addEventListener('DOMContentLoaded', () => dispatchEvent(new Event('wheel')))")
    reader.page.add_init_script("Element.prototype.scrollIntoView = () => (window.taken = true)")
    reader.page.goto(f"{(reader.site / '00_start_here.html').as_uri()}#Quiz")
    reader.page.wait_for_function(DRAWN)
    reader.page.evaluate(SETTLED)
    assert reader.page.evaluate("window.taken") is None


# ---- how it looks ----------------------------------------------------------------------------------------------------


def is_dark(page: Page) -> bool:
    colours = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return max(map(int, re.findall(r"\d+", colours)[:3])) < 100


@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_theme_follows_the_system_until_one_is_chosen_which_is_remembered(reader: Reader, system: str) -> None:
    reader.page.emulate_media(color_scheme=system)  # type: ignore[arg-type]
    page, other = reader.open("index"), "light" if system == "dark" else "dark"
    assert is_dark(page) == (system == "dark")
    assert {player["theme"] for player in players(page)} == {system}
    page.get_by_role("button", name=f"{other.capitalize()} theme").click()
    for name in ("index", PAGES[1]):
        assert is_dark(page) == (other == "dark")
        page.wait_for_function("(t) => document.querySelector('.reqpool-player').dataset.theme === t", arg=other)
        reader.open(name)


def test_a_browser_that_keeps_nothing_shows_and_switches_the_theme_all_the_same(reader: Reader) -> None:
    reader.page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no storage here'); } })"
    )
    page = reader.open(PAGES[1])
    page.get_by_role("button", name="Dark theme").click()
    assert is_dark(page)


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_scrolls_a_page_only_downwards(reader: Reader, name: str) -> None:
    reader.page.set_viewport_size({"width": 360, "height": 740})
    page = reader.open(name)
    commit_all(page)
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("name", [CHAPTERS[0], CHAPTERS[4]])
def test_on_paper_players_stand_where_the_course_shows_them_and_have_no_buttons(reader: Reader, name: str) -> None:
    page = reader.open(name)
    press_everywhere(page, "Step forward")
    left = [player["step"] for player in players(page)]
    page.evaluate("document.getElementById('theme').click()")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    printed = players(page)
    assert [player["step"] for player in printed] == [player["start"] or player["last"] for player in printed]
    asked = page.locator(".reqpool-player[data-pick]")
    assert [one.get_attribute("data-step") for one in asked.all()] == [
        str(json.loads(one.get_attribute("data-options") or "")["step"]) for one in asked.all()
    ], "a question's table does not tell how the story ends"
    assert not is_dark(page) and {player["theme"] for player in printed} == {"light"}
    assert page.locator(".reqpool-player .transport:visible").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert is_dark(page)
    assert [player["step"] for player in players(page)] == left


def test_on_a_phone_a_plan_is_read_without_scrolling_it(reader: Reader) -> None:
    reader.page.set_viewport_size({"width": 360, "height": 740})
    page = reader.open("for_teachers")
    plans = page.locator(".scrolls:has(> .stacks)")
    assert plans.count() == 4
    for plan in plans.all():
        assert plan.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    heads = "(cell) => getComputedStyle(cell, '::before').content"
    assert [cell.evaluate(heads) for cell in plans.first.locator("tbody tr").first.locator("td").all()] == [
        f'"{head}: "' for head in ("minutes", "where", "show", "ask")
    ]


@pytest.mark.parametrize("name", PAGES)
def test_landmarks_and_headings_are_those_of_a_page(site: Path, name: str) -> None:
    page = parsed(site / f"{name}.html")
    assert page.html["lang"] == "en"
    assert len(page.find_all("main")) == len(page.find_all("h1")) == 1
    assert page.title.get_text()
    assert page.body.find("a")["href"] == f"#{page.main['id']}"
    levels = [int(head.name[1]) for head in page.main.find_all(re.compile("^h[1-6]$"))]
    assert all(lower - upper <= 1 for upper, lower in itertools.pairwise(levels))
    ids = [one["id"] for one in page.find_all(id=True) if not one.find_parent("svg") and one.name != "svg"]
    assert len(ids) == len(set(ids))
    assert all(image.get("alt") for image in page.find_all("img"))


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(reader: Reader, name: str) -> None:
    reader.page.emulate_media(reduced_motion="reduce")
    page = reader.open(name)
    for form in page.locator("form.question").all()[-1:]:
        choose(form)
        form.locator("button[type=submit]").click()
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    # one player stands for all: they are one script, and their thousands of cells take minutes
    page.evaluate("[...document.querySelectorAll('.reqpool-player')].slice(1).forEach((one) => one.remove())")
    page.evaluate(AXE_SCRIPT)
    found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
    page.get_by_role("button", name="Dark theme").click()
    found += page.evaluate("axe.run({ resultTypes: ['violations'], runOnly: ['color-contrast'] })")["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], json.dumps([node["html"] for node in one["nodes"]][:3])) for one in serious] == []
