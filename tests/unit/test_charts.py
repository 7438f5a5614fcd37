"""The chart of table memory: numbers from the shape alone, the same bytes every time, colours of the page around it."""

import subprocess
import sys

import pytest
from matplotlib._pylab_helpers import Gcf
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reqpool.pool import ReqToTokenPool
from reqpool.views import charts


@pytest.mark.parametrize(("size", "max_context_len"), [(1, 1), (8, 64), (31, 17)])
def test_table_bytes_is_what_torch_allocates(size: int, max_context_len: int) -> None:
    pool = ReqToTokenPool(size, max_context_len, device="cpu")
    assert charts.table_bytes(size, max_context_len) == pool.req_to_token.nbytes


def test_the_real_tables_have_the_published_sizes() -> None:
    sizes = {mark.letter: mark.num_bytes for mark in charts.REAL_TABLES}
    assert charts.readable(sizes["E"]) == "80.04 GiB"
    assert f"{sizes['D'] / 1e9:.2f}" == "2.68"
    assert charts.readable(sizes["C"]) == "1.00 GiB"
    assert sizes["E"] // charts.CELL_BYTES > 10 * charts.INT32_CELLS


@pytest.mark.parametrize(
    ("num_bytes", "words"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (2**60, "1024.00 PiB")]
)
def test_readable(num_bytes: int, words: str) -> None:
    assert charts.readable(num_bytes) == words


def test_the_figure_shows_this_table_and_every_real_one() -> None:
    figure = charts.table_memory(2048, 131_072)
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    (here,) = [dots.get_offsets() for dots in axes.collections if len(dots.get_offsets()) == 1]
    assert here.tolist() == [[131_072, charts.table_bytes(2048, 131_072)]]
    words = {text.get_text() for text in axes.texts}
    assert {mark.letter for mark in charts.REAL_TABLES} | {"yours: 1.00 GiB"} <= words


def test_the_drawing_has_alternative_text_and_leaves_the_page_alone() -> None:
    drawing = charts.svg(charts.table_memory(8, 64), label='a <b> & "c"')
    assert 'role="img" aria-label="a &lt;b&gt; &amp; &quot;c&quot;"' in drawing
    assert "<style" not in drawing and "<metadata" not in drawing
    assert drawing.startswith("<svg") and ' width="' not in drawing[: drawing.index(">")]
    assert "#000000" not in drawing and 'fill="currentColor"' in drawing


def test_the_same_chart_gives_the_same_bytes_in_another_process() -> None:
    code = "import sys; from reqpool.views import charts; sys.stdout.write(charts.svg(charts.table_memory(8, 64), 'x'))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == charts.svg(charts.table_memory(8, 64), "x")


def test_no_figure_is_kept_in_the_registry_of_pyplot() -> None:
    before = dict(Gcf.figs)
    charts.svg(charts.table_memory(8, 64), "x")
    assert dict(Gcf.figs) == before


@pytest.mark.parametrize("settings", [(8192, 16384, 64), (8192, 512, 8), (512, 64, 1)])
def test_the_legend_of_the_waiting_times_covers_no_line(settings: tuple[int, int, int]) -> None:
    figure = charts.waiting_times(*settings)
    FigureCanvasAgg(figure).draw()
    upper = figure.axes[0]
    legend, page = upper.get_legend().get_window_extent(), figure.bbox
    assert legend.y0 >= upper.bbox.y1, "above the axes"
    assert legend.y1 <= page.y1 and legend.x1 <= page.x1, "and on the page"
    for words in upper.texts:
        box = words.get_window_extent()
        assert page.x0 <= box.x0 and box.x1 <= page.x1


def test_waiting_times_that_coincide_can_both_be_seen() -> None:
    lines = {line.get_label(): line for line in charts.waiting_times(8192, 512, 8).axes[0].lines}
    below, above = lines["the same, not mixed"], lines["long prompt: time to first token"]
    assert below.get_markerfacecolor() == "none" and below.get_markersize() > 2 * above.get_markersize()
    assert below.get_linewidth() > 2 * above.get_linewidth() and below.get_linestyle() != above.get_linestyle()


def test_a_request_is_a_square_and_the_legend_names_both_signs() -> None:
    figure = charts.requests_hurt({"one": ["right", "touched", "wrong"] * 20, "two": ["wrong"] * 7})
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    boxes = [path.get_extents(axes.transData) for bars in axes.collections for path in bars.get_paths()]
    assert len(boxes) == 67
    for box in boxes:
        assert box.width == pytest.approx(box.height, rel=0.01)
    said = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "a dot" in said[1] and "a cross" in said[2]
    legend, page = axes.get_legend().get_window_extent(), figure.bbox
    assert legend.y0 >= axes.bbox.y1 and legend.y1 <= page.y1 and legend.x0 >= page.x0
