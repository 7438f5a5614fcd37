"""What a newcomer and a teacher read is true: links, minutes, lines, commands, badges, workflows, citation."""

import json
import re
import shlex
from pathlib import Path
from urllib.parse import unquote

import badges
import pytest
import readme
import yaml
from nbconvert.filters import markdown2html
from packaging.requirements import Requirement

from reqpool.scenarios import two_owners
from tests.test_project import PROJECT, PYTHONS, ROOT, imported, tracked

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEACHER = (ROOT / "notebooks" / "for_teachers.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "notebooks" / "glossary.md").read_text(encoding="utf-8")
PAGES = [path for path in tracked() if path.suffix == ".md"]


def markdown_cells(path: Path) -> list[str]:
    return [
        "".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "markdown"
    ]


def outside_code(text: str) -> str:
    """Markdown without fenced and indented code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return "\n".join(line for line in text.splitlines() if not re.match(r" {4,}\S", line))


def table_below(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    under = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in under.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


# ------------------------------------------------------------------------------------------------ links


def headings(path: Path) -> set[str]:
    """The anchors of a page: as GitHub makes them for Markdown, as JupyterLab does for a notebook."""
    if path.suffix == ".ipynb":
        found = re.findall(r"^#+ (.+)$", "\n".join(markdown_cells(path)), re.MULTILINE)
        return {one.strip().replace(" ", "-") for one in found}
    found = re.findall(r"^#+ (.+)$", outside_code(path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.strip().lower()).replace(" ", "-") for one in found}


def links(text: str) -> list[str]:
    inline = re.findall(r"\]\(([^)\s]+)\)", outside_code(text))
    return inline + re.findall(r'(?:src|srcset|href)="([^"]+)"', text)


def dead(link: str, page: Path) -> bool:
    target, _, anchor = link.partition("#")
    path = (page.parent / target).resolve() if target else page
    return not path.exists() or bool(anchor and unquote(anchor) not in headings(path))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_link_inside_leads_to_a_file_and_to_a_heading_of_it(page: Path) -> None:
    inside = [link for link in links(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in inside if dead(link, page)] == []


@pytest.mark.parametrize("page", [path for path in PAGES if path.name != "README.md"], ids=lambda path: path.name)
def test_every_page_but_the_readme_is_linked_from_another(page: Path) -> None:
    linked = {(other.parent / link.partition("#")[0]).resolve() for other in PAGES for link in links(other.read_text())}
    assert page.resolve() in linked


def test_an_address_outside_is_an_incident_that_a_chapter_tells() -> None:
    told = {link for path in NOTEBOOKS for cell in markdown_cells(path) for link in links(cell)}
    text = badges.BLOCK.sub("", README)
    assert [link for link in links(text) if "://" in link and link not in told] == []
    assert [link for link in links(TEACHER + GLOSSARY) if "://" in link] == []


@pytest.mark.parametrize(("page", "found"), [("a#b", True), ("README.md#open-it", False), ("README.md#Open-it", True)])
def test_the_search_for_dead_links_finds_them(page: str, found: bool) -> None:
    assert dead(page, ROOT / "README.md") is found


# ------------------------------------------------------------------------------------------------ README


def test_the_animation_on_top_has_its_sentence_and_a_still_for_those_who_want_no_motion() -> None:
    captions = json.loads((ROOT / "figures" / "captions.json").read_text(encoding="utf-8"))
    picture = README.split("<picture>", 1)[1].split("</picture>", 1)[0]
    assert re.search(r'<source media="\(prefers-reduced-motion: reduce\)" srcset="figures/alloc_free.svg">', picture)
    shown, said = re.search(r'<img src="figures/([\w.]+)"[^>]* alt="([^"]+)">', picture).groups()
    assert said == captions[shown]
    assert README.index("<picture>") < README.index("\n## ")


def minutes(path: Path) -> str:
    return re.search(r"^\*\*About (\d+) minutes\.\*\*", markdown_cells(path)[0], re.MULTILINE)[1]


def test_the_readme_lists_every_chapter_with_the_minutes_that_it_says_itself() -> None:
    listed = [(row[0], row[2]) for row in table_below(README, "The course")]
    assert listed == [(f"[{path.stem}](notebooks/{path.name})", minutes(path)) for path in NOTEBOOKS]


READING = [row for row in table_below(README, "How the code reads") if "reqpool/" in row[0]]


@pytest.mark.parametrize("row", READING, ids=lambda row: row[0].strip("`"))
def test_the_lines_that_the_readme_gives_are_right_within_a_tenth(row: list[str]) -> None:
    there, said = readme.count(row[0]), int(row[1].replace(",", ""))
    assert abs(said - there) <= max(there / 10, 10), f"{row[0]} has {there} lines: run `python tools/readme.py`"


def test_the_readme_names_every_module_once_and_in_an_order_in_which_nothing_is_imported_that_comes_later() -> None:
    names = [re.findall(r"`reqpool/([^`]+?)/?`", row[0]) for row in READING]
    rank = {name.removesuffix(".py"): number for number, row in enumerate(names) for name in row}
    modules = {path.stem if path.suffix else path.name for path in (ROOT / "reqpool").iterdir()} - {"__pycache__"}
    assert sum(map(len, names)) == len(rank)
    assert rank.keys() == modules - {"__init__"}
    door = {"Req", "ReqToTokenPool", "ReqToTokenPoolInfo", "CheckedPool", "Event", "Snapshot", "Trace", "record"}
    for name, number in rank.items():
        for path in readme.paths(f"`reqpool/{name}`") or readme.paths(f"`reqpool/{name}.py`"):
            if path.suffix != ".py":
                continue
            used = {one.split(".")[1] for one in imported(path) if one.startswith("reqpool.")} - door
            assert [one for one in used if rank.get(one, 0) > number] == [], path


def test_counting_lines_changes_nothing_but_the_lines() -> None:
    assert re.sub(r"^(\| `reqpool/[^|]+\|)[^|]*\|", r"\1 |", readme.with_lines(README), flags=re.MULTILINE) == re.sub(
        r"^(\| `reqpool/[^|]+\|)[^|]*\|", r"\1 |", README, flags=re.MULTILINE
    )


def test_the_code_in_the_readme_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = README.split("## Use it on your own code", 1)[1].split("\n## ", 1)[0]
    code = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    ") or not line.strip())
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "story.html").stat().st_size > 10_000
    assert (tmp_path / "story.jsonl").exists()


# ------------------------------------------------------------------------------------------------ the bench in README

PRINTED = """\
/bin/python tools/bench.py
2026-11-30, A CPU (R) v3, 2 cores, Linux, Python 3.11.7, torch 2.13.0+cpu. This takes some minutes; a line appears when it is measured.
what                                                                measured                                      target                        
alloc + free, us a request, batch 1, 64 / 4,096 / 65,536 / 1,000,000 rows  14.0 / 13.8 / 13.8 / 13.8
  slowest pool over fastest, batch 1                                1.01x                                         at most 1.5x                    met
by count with resets, 4,096 rows, batch 1: faster than three writes  2.2x  (12.4 against 26.9 us)                  at least 1.5x                   MISSED
  (a trace | with a bar)
import reqpool, after import torch                                  16 ms                                         under 50 ms                     met
1 targets missed. Times are this machine's, in this minute: on a busy one they say little.
"""  # noqa: E501, W291


def test_what_the_bench_printed_becomes_a_table_with_date_and_machine() -> None:
    filled = readme.with_bench("a\n<!-- bench -->\nold\n<!-- /bench -->\nb\n", PRINTED)
    assert filled.startswith(
        "a\n<!-- bench -->\nMeasured on 2026-11-30: A CPU (R) v3, 2 cores, Linux, Python 3.11.7, torch"
    )
    assert filled.endswith("</details>\n<!-- /bench -->\nb\n")
    assert "2 of 3 targets met, 1 missed." in filled
    assert "old" not in filled
    rows = [line for line in filled.splitlines() if line.startswith("| ")]
    assert rows[2:] == [
        "| alloc + free, us a request, batch 1, 64 / 4,096 / 65,536 / 1,000,000 rows | 14.0 / 13.8 / 13.8 / 13.8 "
        "|  |  |",
        "| &nbsp;&nbsp;slowest pool over fastest, batch 1 | 1.01x | at most 1.5x | met |",
        "| by count with resets, 4,096 rows, batch 1: faster than three writes | 2.2x  (12.4 against 26.9 us) "
        "| at least 1.5x | MISSED |",
        "| &nbsp;&nbsp;(a trace \\| with a bar) |  |  |  |",
        "| import reqpool, after import torch | 16 ms | under 50 ms | met |",
    ]


def test_filling_in_the_bench_twice_is_filling_it_in_once() -> None:
    once = readme.with_bench(README, PRINTED)
    assert readme.with_bench(once, PRINTED) == once


@pytest.mark.parametrize("cut", ["2026-11-30, ", "what  ", "1 targets missed"])
def test_half_a_bench_is_refused(cut: str) -> None:
    with pytest.raises(ValueError, match="not the whole"):
        readme.bench(PRINTED.replace(cut, "", 1))


# ------------------------------------------------------------------------------------------------ credits


def test_the_credits_have_a_row_for_every_dependency() -> None:
    rows = table_below((ROOT / "NOTICE.md").read_text(), "What each dependency spares us")
    credited = {name.strip() for row in rows for name in row[0].split(",")}
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    named = {Requirement(one).name for group in groups for one in group} | {"pygments"}  # it comes with IPython
    assert len(named) > 12 and "basedpyright" in named
    assert credited == named - {PROJECT["name"]}


# ------------------------------------------------------------------------------------------------ for a teacher


@pytest.mark.parametrize("total", [45, 90, 180])
def test_the_minutes_of_a_plan_add_up(total: int) -> None:
    assert sum(int(row[0]) for row in table_below(TEACHER, f"{total} minutes")) == total


@pytest.mark.parametrize("total", [45, 90, 180])
def test_every_line_of_a_plan_names_the_section_that_it_links_and_says_what_to_ask(total: int) -> None:
    for _, where, show, ask in table_below(TEACHER, f"{total} minutes"):
        if where != "break":
            number, section, target, anchor = re.fullmatch(
                r"\[(\d\d), (.+)\]\((\d\d)_\w+\.ipynb#(.+)\)", where
            ).groups()
            assert number == target
            assert unquote(anchor).replace("-", " ").startswith(section)
            assert show and ask.count("?") + ask.count(".") >= 1


@pytest.mark.parametrize("total", [45, 90, 180])
def test_a_plan_starts_each_further_chapter_on_an_earlier_line_and_says_what_can_be_left_out(total: int) -> None:
    rows = table_below(TEACHER, f"{total} minutes")
    chapters = [row[1][1:3] for row in rows]
    started = [number for row in rows for number in re.findall(r"\bstart (\d\d)", row[2])[:1]]
    assert started == sorted({one for one in chapters if one.isdigit()} - {chapters[0]})
    for number in started:
        line = next(k for k, row in enumerate(rows) if f"start {number}" in row[2])
        assert line < chapters.index(number)
    assert 1 <= sum("leave out if late" in row[2] for row in rows) <= 2


def test_what_a_teacher_is_told_to_ask_of_two_owners_is_so() -> None:
    story = two_owners()
    named = [slot for row in (1, 2) for slot in story.snapshot(6).table[row, : story.snapshot(6).alloced[row]].tolist()]
    assert (len(named), len(set(named))) == (5 + 3, 7)
    assert "slot 3 goes to the KV allocator's free slots" in story[3].text and 3 in story.snapshot(4).table[1]
    assert "pool.check() finds nothing wrong" in story[5].text and "hewlo" in story[6].text


def test_a_mistake_that_names_an_exercise_or_a_prediction_names_one_of_that_chapter() -> None:
    sources = {path.stem[:2]: path.read_text() for path in (ROOT / "notebooks" / "source").glob("[0-9]*.py")}
    named = [
        re.fullmatch(r"(?:quiz )?(\d\d), `(\w+)`", row[1]) for row in table_below(TEACHER, "Where people go wrong")
    ]
    assert len([one for one in named if one]) > 8
    for chapter, name in (one.groups() for one in named if one):
        assert re.search(rf"def {name}\(|predict\(\s*\"{name}\"", sources[chapter]), (chapter, name)


def test_the_buttons_and_keys_that_a_teacher_is_told_are_those_of_the_player() -> None:
    script = "".join(path.read_text() for path in sorted((ROOT / "reqpool" / "player").glob("*.js")))
    assert '"Large type"' in script
    for key in ("ArrowLeft", "ArrowRight", "Home", "End", "Enter", "Escape"):
        assert key in script
    assert re.search(r'" "|"Space"', script)


# ------------------------------------------------------------------------------------------------ glossary

ENTRIES = re.findall(r"^- (\*\*.+?)(?=^- |^## |\Z)", GLOSSARY.split("\n## ", 1)[1], re.MULTILINE | re.DOTALL)
TERMS = {
    term.lower() for entry in ENTRIES for terms in re.findall(r"\*\*([^*]+)\*\*", entry) for term in terms.split(", ")
}


def test_the_glossary_has_every_word_that_chapter_00_lists() -> None:
    words = "\n".join(markdown_cells(NOTEBOOKS[0])).split("## Words\n", 1)[1].split("\n## ", 1)[0]
    listed = {term.lower() for term in re.findall(r"\*\*([^*]+)\*\*", words)}
    assert len(listed) > 8
    assert listed - TERMS - {term.removesuffix(" length") for term in TERMS} == {"table row 0", "kv slot 0"}
    assert "**table row 0** and **KV slot 0**" in GLOSSARY


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: re.match(r"\*\*([^*]+)", entry)[1])
def test_an_entry_says_something_and_names_the_chapter_that_teaches_it(entry: str) -> None:
    assert re.search(r"\]\(\d\d_\w+\.ipynb(#[^)]+)?\)", entry)
    assert len(re.sub(r"Chapters? \[.*|\*\*", "", entry, flags=re.DOTALL).split()) >= 6


def test_no_term_is_explained_twice() -> None:
    heads = [re.match(r"\*\*([^*]+)\*\*", entry)[1] for entry in ENTRIES]
    assert len(set(heads)) == len(heads)


def test_a_name_that_the_glossary_gives_to_the_package_is_in_it() -> None:
    code = "".join(path.read_text() for path in (ROOT / "reqpool").rglob("*.py"))
    named = set(re.findall(r"`(\w+)(?:\(\w*\))?`", GLOSSARY))
    of_engines = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"(?:LightLLM|vLLM|mini-sglang) \(?`\w+`", GLOSSARY))))
    of_engines |= {"HOLD_REQUEST_ID", "out_cache_loc", "mem_indexes", "slot_mapping", "req_generation"}
    assert {name for name in named - of_engines if not re.search(rf"\b{name}\b", code)} == set()


# ------------------------------------------------------------------------------------------------ commands, workflows

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.search(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)[1].split())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def make_targets(text: str) -> set[str]:
    """Of every `make X` and every line of code that begins so, the target."""
    return set(re.findall(r"(?:`|^ {4,}|run: )make ([\w-]+)", text, re.MULTILINE))


@pytest.mark.parametrize("page", [*PAGES, *WORKFLOWS], ids=lambda path: path.name)
def test_every_make_target_that_a_page_names_is_there(page: Path) -> None:
    named = make_targets(page.read_text(encoding="utf-8"))
    assert named - TARGETS == set()
    assert [name for name in named if not re.search(rf"^{name}:", MAKEFILE, re.MULTILINE)] == []


def test_help_names_every_target() -> None:
    assert set(re.findall(r'echo "make ([\w-]+) ', MAKEFILE)) == TARGETS - {"help"}


def test_paths_in_code_marks_are_there() -> None:
    made = {"notebooks/kept/", "site/", "site/index.html", "story.jsonl", "wheels"}
    for page in PAGES:
        named = set(re.findall(r"`([\w./]*/[\w./]*|\w+\.(?:md|py|toml|txt|yml|cff|html))`", page.read_text()))
        there = {name for name in named - made if (ROOT / name).exists() or (page.parent / name).exists()}
        assert {name for name in named - made - there if not re.search(r"NN_|^\d", name)} == set(), page.name


def steps(workflow: Path) -> list[dict]:
    return [step for job in yaml.safe_load(workflow.read_text())["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_read_by_default_and_takes_actions_by_version(workflow: Path) -> None:
    read = yaml.safe_load(workflow.read_text())
    assert read["permissions"] == {"contents": "read"}
    given = {name: scope for job in read["jobs"].values() for name, scope in job.get("permissions", {}).items()}
    assert given in ({}, {"pages": "write", "id-token": "write"})
    assert all(job["timeout-minutes"] <= 60 for job in read["jobs"].values())
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert [one for one in used if not re.fullmatch(r"actions/[\w-]+@v\d+", one)] == []
    assert all(
        step.get("with", {}).get("persist-credentials") is False
        for step in steps(workflow)
        if "checkout" in step.get("uses", "")
    )


def test_the_workflows_run_what_everybody_runs_and_publish_what_make_site_writes() -> None:
    ran = {workflow.name: [step["run"] for step in steps(workflow) if "run" in step] for workflow in WORKFLOWS}
    assert ran == {"test.yml": ["make test"], "site.yml": ["make site"]}
    uploads = [
        step["with"]["path"]
        for step in steps(ROOT / ".github/workflows/site.yml")
        if "pages-artifact" in step.get("uses", "")
    ]
    assert uploads == ["site"]


def test_a_workflow_asks_for_pythons_that_the_package_supports_and_for_files_that_are_there() -> None:
    for workflow in WORKFLOWS:
        for step in steps(workflow):
            if "setup-python" in step.get("uses", ""):
                assert all((ROOT / name).exists() for name in step["with"]["cache-dependency-path"].split())
        asked = re.findall(r'"(3\.\d+)"', workflow.read_text())
        assert asked and set(asked) <= set(PYTHONS)


HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]


def test_pre_commit_uses_the_tools_of_the_environment_and_fetches_none() -> None:
    assert [repo["repo"] for repo in HOOKS] == ["local"]
    commands = [shlex.split(hook["entry"]) for hook in HOOKS[0]["hooks"]]
    assert {command[0] for command in commands} == {".venv/bin/python"}
    assert all((ROOT / word).exists() for command in commands for word in command if "tools/" in word)
    as_in_make = {" ".join(command[1:4]) for command in commands if command[1] == "-m"}
    assert all(f"$(python) {command}" in MAKEFILE for command in as_in_make)


# ------------------------------------------------------------------------------------------------ citation, changelog


def test_the_citation_says_what_the_package_says() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert cited["cff-version"] == "1.2.0"
    assert str(cited["version"]) == PROJECT["version"]
    assert cited["license"] == PROJECT["license"]
    assert cited["authors"] == PROJECT["authors"]
    assert cited["keywords"] == PROJECT["keywords"]
    assert cited["title"].lower() == f"{PROJECT['name']}: {PROJECT['description']}".lower()


def test_the_changelog_has_its_newest_part_on_top() -> None:
    parts = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert parts[0] == "[Unreleased]"
    assert [part for part in parts[1:] if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", part)] == []


# ------------------------------------------------------------------------------------------------ badges

PYPROJECT = (ROOT / "pyproject.toml").read_text()
WHERE = badges.Place("some-body/req.pool", f"v{PROJECT['version']}")


def with_address(address: str) -> str:
    return PYPROJECT.replace("[project.urls]\n", f'[project.urls]\nRepository = "{address}"\n')


def paths_of(text: str) -> set[str]:
    """Every path of the repository at which the badges of a text point, and those that Binder and Actions read."""
    found = {unquote(path) for path in re.findall(r"urlpath=lab%2Ftree%2F([^)\s]+)\)", text)}
    found |= set(re.findall(rf"/blob/{re.escape(WHERE.tag)}/([^)\s]+)\)", text))
    found |= {f".github/workflows/{name}" for name in re.findall(r"actions/workflows/([\w.]+)\)", text)}
    return found | ({"environment.yml", "postBuild"} if "mybinder" in text else set())


@pytest.mark.parametrize(
    "address", ["https://github.com/some-body/req.pool", "https://github.com/some-body/req.pool.git"]
)
def test_the_place_is_read_from_pyproject(address: str) -> None:
    assert badges.place(with_address(address)) == WHERE


def test_an_address_from_which_no_badge_can_be_made_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be https://github\.com/OWNER/NAME"):
        badges.place(with_address("https://git.example/some-body/reqpool"))


def test_what_stands_in_readme_and_lessons_is_what_the_command_writes() -> None:
    assert badges.write(ROOT, badges.place(PYPROJECT)) == []


def copy_of_the_texts(folder: Path) -> Path:
    (folder / "notebooks" / "source").mkdir(parents=True)
    for path in (ROOT / "README.md", *(ROOT / "notebooks" / "source").glob("*.py")):
        (folder / path.relative_to(ROOT)).write_bytes(path.read_bytes())
    return folder


def test_every_path_at_which_a_badge_points_is_there_and_a_lesson_s_are_its_own(tmp_path: Path) -> None:
    texts = [path.read_text() for path in badges.write(copy_of_the_texts(tmp_path), WHERE)]
    assert len(texts) == 1 + len(NOTEBOOKS)
    for text in texts:
        assert paths_of(text)
        assert [path for path in paths_of(text) if not (ROOT / path).exists()] == []
    for path in NOTEBOOKS:
        source = (tmp_path / "notebooks" / "source" / f"{path.stem}.py").read_text()
        assert paths_of(source) - {"environment.yml", "postBuild"} == {f"notebooks/{path.name}"}


def test_a_lesson_s_badges_are_shown_in_its_title_cell_and_its_archive_is_that_of_the_same_tag(tmp_path: Path) -> None:
    badges.write(copy_of_the_texts(tmp_path), WHERE)
    for path in (tmp_path / "notebooks" / "source").glob("*.py"):
        head = path.read_text().split("\n\n# %%", 1)[0]
        shown = markdown2html("\n".join(line[2:] for line in head.splitlines()[1:]))
        for host in ("mybinder.org/v2/gh/some-body/req.pool/", "colab.research.google.com/github/some-body/req.pool/"):
            assert re.search(rf'<a href="https://{host}[^"]*{path.stem}\.ipynb">\s*<img', shown)
        archive = re.search(r'^ARCHIVE = "(.*)"', path.read_text(), re.MULTILINE)[1]
        assert archive == f"https://github.com/some-body/req.pool/archive/refs/tags/v{PROJECT['version']}.tar.gz"


def test_badges_written_twice_are_there_once_and_taken_out_again_leave_no_trace(tmp_path: Path) -> None:
    folder = copy_of_the_texts(tmp_path)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert badges.write(folder, WHERE)
    assert badges.write(folder, WHERE) == []
    badges.write(folder, badges.place(PYPROJECT))
    assert {path: path.read_bytes() for path in before} == before


def test_a_text_without_a_place_for_badges_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    folder = copy_of_the_texts(tmp_path)
    broken = folder / "notebooks" / "source" / "99_no_title.py"
    broken.write_text("# %%\n1\n")
    readme_before = (folder / "README.md").read_bytes()
    with pytest.raises(ValueError, match=r"99_no_title\.py does not begin with a title"):
        badges.write(folder, WHERE)
    assert (folder / "README.md").read_bytes() == readme_before
