"""Streams: the formats as they are published, each way a line can be broken, and where a stream is looked for."""

import hashlib
import lzma
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reqpool import workloads
from reqpool.workloads import Arrival, Stream, load, read, stream, synthetic

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 23:59:59.9999999,374,44\r\n"
    "2023-11-17 00:00:00.0000000,396,109\r\n"
    "2023-11-17 00:00:01.5000000,7,1"
)
MOONCAKE = (
    '{"timestamp": 500, "input_length": 513, "output_length": 9, "hash_ids": [0, 1]}\n'
    '{"timestamp": 500, "input_length": 1, "output_length": 2, "hash_ids": [0]}\n'
    '{"timestamp": 3501, "input_length": 2, "output_length": 1, "hash_ids": [0]}\n'
)
AZURE_FILE, MOONCAKE_FILE = "AzureLLMInferenceTrace_conv.csv", "conversation_trace.jsonl"
REAL = os.environ.get("REQPOOL_WORKLOADS")
with_real_files = pytest.mark.skipif(not REAL, reason="REQPOOL_WORKLOADS names no folder of real files")


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No variable, an empty cache: its folder."""
    monkeypatch.delenv("REQPOOL_WORKLOADS", raising=False)
    monkeypatch.setattr(workloads, "_cache", lambda: tmp_path)
    return tmp_path


def written(path: Path, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)
    return path


# ------------------------------------------------------------------------------------------------ whole files


@pytest.mark.parametrize("end", ["", ".xz"])
def test_azure_times_count_from_the_first_request_to_100_ns_across_midnight(tmp_path: Path, end: str) -> None:
    found = read(written(tmp_path / f"some.csv{end}", AZURE))
    assert list(found) == [Arrival(0.0, 374, 44), Arrival(1e-7, 396, 109), Arrival(1.5000001, 7, 1)]
    assert found.label == f"some.csv{end}"


@pytest.mark.parametrize("end", ["", ".xz"])
def test_mooncake_times_are_milliseconds_and_blocks_are_left_out(tmp_path: Path, end: str) -> None:
    found = read(written(tmp_path / f"some.jsonl{end}", MOONCAKE))
    assert list(found) == [Arrival(0.0, 513, 9), Arrival(0.0, 1, 2), Arrival(3.001, 2, 1)]


def test_line_ends_of_either_kind_and_a_last_line_with_or_without(tmp_path: Path) -> None:
    texts = [AZURE, AZURE.replace("\r\n", "\n"), AZURE + "\r\n"]
    first, *others = [read(written(tmp_path / f"{i}.csv", text)).arrivals for i, text in enumerate(texts)]
    assert others == [first, first]


# ------------------------------------------------------------------------------------------------ broken lines

STAMP = "2023-11-17 00:00:01.5000000"
BROKEN_AZURE = {
    "two columns": (f"{STAMP},7", "wanted 3 columns, got 2"),
    "four columns": (f"{STAMP},7,1,1", "wanted 3 columns, got 4"),
    "an empty line": ("", "wanted 3 columns, got 1"),
    "no number": (f"{STAMP},many,1", "ContextTokens 'many' is not a number"),
    "nothing": (f"{STAMP},7,", "GeneratedTokens '' is not a number"),
    "a blank": (f"{STAMP}, 7,1", "ContextTokens ' 7' is not a number"),
    "underscore": (f"{STAMP},1_0,1", "ContextTokens '1_0' is not a number"),
    "other digits": (f"{STAMP},٧,1", "ContextTokens '٧' is not a number"),
    "a fraction": (f"{STAMP},7,1.5", "GeneratedTokens '1.5' is not a number"),
    "not a number": (f"{STAMP},nan,1", "ContextTokens 'nan' is not a number"),
    "negative": (f"{STAMP},-7,1", "ContextTokens is -7, wanted 1..2147483647"),
    "no prompt": (f"{STAMP},0,1", "ContextTokens is 0, wanted 1..2147483647"),
    "no output": (f"{STAMP},7,0", "GeneratedTokens is 0, wanted 1..2147483647"),
    "too long": (f"{STAMP},2147483648,1", "ContextTokens is 2147483648, wanted 1..2147483647"),
    "endless": (f"{STAMP},{'9' * 5000},1", "is not a number of tokens"),
    "no time": ("yesterday,7,1", "TIMESTAMP 'yesterday' is no time: wanted it as"),
    "no such day": ("2023-11-31 00:00:01.5000000,7,1", "TIMESTAMP '2023-11-31 00:00:01.5000000' is no time: day"),
    "six digits": ("2023-11-17 00:00:01.500000,7,1", "is no time: wanted it as"),
    "backwards": ("2023-11-16 23:59:59.0000000,7,1", "time runs backwards: it comes 1.0000000 s before the line above"),
    "no text": (b"\xff\xfe,7,1", "is no UTF-8 text"),
}
BROKEN_MOONCAKE = {
    "no JSON": ("timestamp: 1", "is no JSON"),
    "cut off": ('{"timestamp": 501, "input_length": 2', "is no JSON"),
    "an empty line": ("", "is no JSON"),
    "nested without end": ("[" * 100_000, "is no JSON"),
    "a list": ("[501, 2, 1]", "wanted a JSON object, got '[501, 2, 1]'"),
    "a field less": ('{"timestamp": 501, "input_length": 2}', "has no output_length"),
    "text": ('{"timestamp": 501, "input_length": "2", "output_length": 1}', 'input_length "2" is not a whole number'),
    "true": ('{"timestamp": 501, "input_length": true, "output_length": 1}', "input_length true is not a whole number"),
    "fraction": ('{"timestamp": 501, "input_length": 2, "output_length": 1.0}', "output_length 1.0 is not a whole"),
    "infinite": ('{"timestamp": Infinity, "input_length": 2, "output_length": 1}', "timestamp Infinity is not a whole"),
    "negative": ('{"timestamp": 501, "input_length": -2, "output_length": 1}', "input_length is -2, wanted 1.."),
    "no prompt": ('{"timestamp": 501, "input_length": 0, "output_length": 1}', "input_length is 0, wanted 1.."),
    "no output": ('{"timestamp": 501, "input_length": 2, "output_length": 0}', "output_length is 0, wanted 1.."),
    "before time": ('{"timestamp": -1, "input_length": 2, "output_length": 1}', "timestamp is -1, wanted milliseconds"),
    "backwards": ('{"timestamp": 499, "input_length": 2, "output_length": 1}', "time runs backwards: it comes 0.0010"),
}


@pytest.mark.parametrize("end", [".csv", ".csv.xz"])
@pytest.mark.parametrize(("line", "problem"), BROKEN_AZURE.values(), ids=BROKEN_AZURE)
def test_a_broken_azure_line_is_named_by_file_and_number(
    tmp_path: Path, line: str | bytes, problem: str, end: str
) -> None:
    lines = AZURE.encode().split(b"\r\n")
    lines.insert(3, line.encode() if isinstance(line, str) else line)
    path = written(tmp_path / f"broken{end}", b"\r\n".join(lines))
    with pytest.raises(ValueError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}, line 4: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize(("line", "problem"), BROKEN_MOONCAKE.values(), ids=BROKEN_MOONCAKE)
def test_a_broken_mooncake_line_is_named_by_file_and_number(tmp_path: Path, line: str, problem: str) -> None:
    lines = MOONCAKE.split("\n")
    lines.insert(2, line)
    path = written(tmp_path / "broken.jsonl", "\n".join(lines))
    with pytest.raises(ValueError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert problem in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 250


@pytest.mark.parametrize("text", ["", "\r\n", "a,b,c\r\n1,2,3", AZURE.split("\r\n", 1)[1]])
def test_an_azure_file_starts_with_its_columns(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"line 1: wanted the columns TIMESTAMP,ContextTokens,GeneratedTokens, got"):
        read(written(tmp_path / "some.csv", text))


@pytest.mark.parametrize(("name", "text"), [("some.csv", AZURE.split("\r\n")[0]), ("some.jsonl", "")])
def test_a_file_without_a_request_is_refused(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: holds no request"):
        read(written(tmp_path / name, text))


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_half_an_xz_file_is_refused(tmp_path: Path, keep: float) -> None:
    whole = lzma.compress(AZURE.encode() + b"\r\n2023-11-17 00:00:02.0000000,7,1" * 1000)
    path = tmp_path / "some.csv.xz"
    path.write_bytes(whole[: int(keep * len(whole))])
    with pytest.raises(ValueError, match=r"no whole xz file|wanted the columns"):
        read(path)


def test_plain_text_called_xz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.csv.xz"
    path.write_text(AZURE)
    with pytest.raises(ValueError, match="no whole xz file"):
        read(path)


@pytest.mark.parametrize("name", ["some.txt", "some", "some.xz", "some.csv.gz", "some.json"])
def test_a_format_that_no_name_says_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"wanted a name that ends in \.csv or \.jsonl"):
        read(written(tmp_path / name, AZURE))


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"some\.csv"):
        read(tmp_path / "some.csv")


# ------------------------------------------------------------------------------------------------ a stream


@pytest.mark.parametrize(
    ("arrivals", "problem"),
    [
        ([], "s: holds no request"),
        ([(1.0, 1, 1), (0.5, 1, 1)], "s: request 1 comes at 0.5 s, wanted 1.0 s or later"),
        ([(-1.0, 1, 1)], "request 0 comes at -1.0 s, wanted 0.0 s or later"),
        ([(math.nan, 1, 1)], "request 0 comes at nan s"),
        ([(math.inf, 1, 1)], "request 0 comes at inf s"),
        ([(0.0, 0, 1)], "request 0 has 0 prompt and 1 output tokens, wanted at least 1 of each"),
        ([(0.0, 1, 0)], "request 0 has 1 prompt and 0 output tokens, wanted at least 1 of each"),
    ],
)
def test_a_stream_by_hand_is_checked_as_well(arrivals: list[tuple[float, int, int]], problem: str) -> None:
    with pytest.raises(ValueError) as caught:
        Stream("s", tuple(Arrival(*one) for one in arrivals))
    assert problem in str(caught.value)


def test_the_first_n_say_so_and_all_of_them_stay_as_they_are() -> None:
    whole = synthetic(num_requests=1_200)
    assert whole.first(1_200) is whole.first(5_000) is whole
    assert whole.first(7).arrivals == whole.arrivals[:7] == whole[:7]
    assert whole.first(7).label == f"{whole.label}, first 7 of 1,200 requests"
    with pytest.raises(ValueError, match="wanted at least 1 request"):
        whole.first(0)


# ------------------------------------------------------------------------------------------------ by name


def test_without_variable_and_download_the_stream_is_synthetic_and_says_so(nowhere: Path) -> None:
    assert stream("azure-conversation", seed=3) == synthetic(3)
    assert stream().label.startswith("synthetic")
    assert len(stream()) == 19_366


def test_a_stream_without_a_stand_in_says_what_to_do(nowhere: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has not been downloaded, and it has no synthetic stand-in: load"):
        stream("mooncake-conversation")


@pytest.mark.parametrize("at", ["", "some-folder/"])
@pytest.mark.parametrize("end", ["", ".xz"])
def test_the_folder_of_the_variable_is_searched_one_level_deep(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, at: str, end: str
) -> None:
    monkeypatch.setenv("REQPOOL_WORKLOADS", str(nowhere))
    (nowhere / at).mkdir(exist_ok=True)
    written(nowhere / f"{at}{AZURE_FILE}{end}", AZURE)
    written(nowhere / f"{at}{MOONCAKE_FILE}{end}", MOONCAKE)
    assert stream() == load("azure-conversation")
    assert (stream().label, len(stream())) == ("Azure LLM inference trace 2023, conversation", 3)
    assert stream("mooncake-conversation")[0] == Arrival(0.0, 513, 9)


def test_with_the_variable_nothing_is_ever_downloaded(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQPOOL_WORKLOADS", str(nowhere / "not-there"))
    monkeypatch.setattr(workloads, "_download", lambda name: pytest.fail(f"downloads {name}"))
    assert stream().label.startswith("synthetic")
    with pytest.raises(
        FileNotFoundError, match=r"conv\.csv \(or .*\.xz\) is not in '.*not-there', the folder that REQ"
    ):
        load("azure-conversation")


def test_an_unknown_name_is_refused_with_the_known_ones(nowhere: Path) -> None:
    for call in (stream, load):
        with pytest.raises(
            ValueError, match="no stream is called 'azure': wanted one of azure-conversation, azure-code"
        ):
            call("azure")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def published(
    nowhere: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A server on this machine that publishes a folder, and the Azure conversation trace is to be had there."""
    pytest.importorskip("pooch")
    folder = tmp_path_factory.mktemp("published")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    source = workloads.Source(
        "a label", f"http://127.0.0.1:{server.server_port}/{AZURE_FILE}", hashlib.sha256(AZURE.encode()).hexdigest()
    )
    monkeypatch.setitem(workloads.SOURCES, "azure-conversation", source)
    yield folder
    server.shutdown()
    server.server_close()


def test_a_download_is_made_once_and_found_again_by_stream(published: Path) -> None:
    file = written(published / AZURE_FILE, AZURE)
    assert stream().label.startswith("synthetic")
    first = load("azure-conversation")
    file.unlink()  # from now on only the copy is there
    assert first == load("azure-conversation") == stream()
    assert (first.label, len(first)) == ("a label", 3)


def test_a_download_with_another_checksum_is_refused(published: Path) -> None:
    written(published / AZURE_FILE, AZURE + "\r\n")
    with pytest.raises(ValueError, match="SHA256 hash"):
        load("azure-conversation")
    assert stream().label.startswith("synthetic")


def test_a_copy_that_was_changed_counts_as_none(published: Path, nowhere: Path) -> None:
    written(published / AZURE_FILE, AZURE)
    load("azure-conversation")
    written(nowhere / AZURE_FILE, AZURE + "\r\n")
    assert stream().label.startswith("synthetic")


def test_without_pooch_a_stream_is_synthetic_and_a_download_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("REQPOOL_WORKLOADS", raising=False)
    monkeypatch.setattr(workloads.importlib.util, "find_spec", lambda name: None)
    assert stream().label.startswith("synthetic")
    with pytest.raises(RuntimeError, match="needs the package pooch, not found here"):
        load("azure-conversation")


def test_importing_and_a_synthetic_stream_load_no_pooch() -> None:
    code = "import sys; from reqpool.workloads import synthetic; synthetic(); print('pooch' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(Path(workloads.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# ------------------------------------------------------------------------------------------------ made up


def percentile(lens: list[int], percent: float) -> int:
    """The smallest length that at least so many percent do not exceed; apart from how the package states it."""
    return next(one for one in sorted(set(lens)) if 100 * sum(n <= one for n in lens) >= percent * len(lens))


def test_a_seed_gives_the_same_stream_always() -> None:
    assert synthetic(seed=5, num_requests=50) == synthetic(seed=5, num_requests=50)
    assert synthetic(seed=5, num_requests=50) != synthetic(seed=6, num_requests=50)
    assert synthetic(seed=5, num_requests=50).arrivals == synthetic(seed=5).arrivals[:50]


def test_a_length_lies_on_the_line_between_two_percentiles() -> None:
    # Random(0) says 0.8444 and 0.7580: the 80th and 90th prompt are 1315 and 2735, the 70th and 80th output 384 and 400
    assert synthetic(seed=0)[0] == Arrival(0.0, round(1315 + 0.4442 * 1420), round(384 + 0.580 * 16))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_synthetic_stream_has_the_percentiles_it_was_made_from(seed: int) -> None:
    made = synthetic(seed)
    for field, wanted in ((1, workloads.PROMPT_LENS), (2, workloads.OUTPUT_LENS)):
        ordered = sorted(one[field] for one in made)
        assert wanted[0] <= ordered[0] and ordered[-1] <= wanted[-1]
        for percent, length in list(zip(workloads.PERCENTS, wanted, strict=True))[1:-1]:
            share = sum(n <= length for n in ordered) / len(ordered)
            assert share == pytest.approx(percent / 100, abs=0.02)
    assert len(made) / made[-1].time_s == pytest.approx(5.53, rel=0.03)


@with_real_files
def test_the_percentiles_are_those_of_the_trace() -> None:
    real = load("azure-conversation")
    assert len(real) == 19_366
    for field, wanted in ((1, workloads.PROMPT_LENS), (2, workloads.OUTPUT_LENS)):
        lens = [one[field] for one in real]
        counts = sorted(lens)
        assert (counts[0], counts[-1]) == (wanted[0], wanted[-1])
        few = [percentile(lens[:500], p) for p in (50, 90)]  # the definition, on few, against the quick way below
        assert few == [sorted(lens[:500])[math.ceil(p / 100 * 500) - 1] for p in (50, 90)]
        for percent, length in list(zip(workloads.PERCENTS, wanted, strict=True))[1:]:
            assert counts[math.ceil(percent * len(counts) / 100) - 1] == length
    assert (len(real) - 1) / real[-1].time_s == pytest.approx(workloads.REQUESTS_PER_S, abs=5e-4)


@with_real_files
@pytest.mark.parametrize(
    ("name", "num", "last_s", "shortest"),
    [
        ("azure-conversation", 19_366, 3501.721937, (2, 7)),
        ("azure-code", 8_819, 3435.948056, (3, 6)),
        ("mooncake-conversation", 12_031, 3536.999, (891, 1)),
        ("mooncake-synthetic", 3_993, 1022.025, (13, 1)),
    ],
)
def test_the_real_files_are_read_whole(name: str, num: int, last_s: float, shortest: tuple[int, int]) -> None:
    found = load(name)
    assert (len(found), found[-1].time_s) == (num, last_s)
    assert (min(one.prompt_len for one in found), min(one.output_len for one in found)) == shortest
    assert "synthetic:" not in found.label
