"""Streams of requests: when each comes, how long its prompt is, how many tokens it wants. Real ones, and a stand-in.

    name                  arrivals                 requests
    azure-conversation    real                       19,366    one hour of a chat service     CC BY 4.0
    azure-code            real                        8,819    one hour of a code assistant   CC BY 4.0
    mooncake-conversation real, in 3 s buckets       12,031    one hour of a chat service     Apache-2.0
    mooncake-synthetic    Poisson, by its authors     3,993    a mix of public data           Apache-2.0

`read(path)` reads one of these formats, `load(name)` finds or downloads one, `stream(name)` never uses the network and
says in its label which one you got: the real one, or a synthetic one made from its percentiles.

Not one request of the four files has an empty prompt or an empty output (the shortest prompts are 2, 3, 891 and 13
tokens, the shortest outputs 7, 6, 1 and 1), so a zero is a broken line, like anything else that cannot be: it is
refused, with the line's number.

Sources: Patel et al., "Splitwise", ISCA 2024 (Azure LLM inference trace 2023, AzurePublicDataset b469a11);
Qin et al., "Mooncake", FAST 2025 (FAST25-release/traces, Mooncake 3b5a594). Looked at on 2026-11-30.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import lzma
import math
import os
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple, overload

FOLDER_VARIABLE = "REQPOOL_WORKLOADS"  # the folder that holds the files; with it set, nothing is ever downloaded
MAX_LEN = 2**31 - 1  # a length is an int32


class Arrival(NamedTuple):
    """One request, seen from outside."""

    time_s: float  # seconds since the first request of its stream
    prompt_len: int
    output_len: int


@dataclass(frozen=True)
class Stream:
    """Arrivals in order of time, and where they come from.

    Raises:
        ValueError: no request at all; times that run backwards or are no times, a length below 1, by the number of
            the request.

    >>> few = Stream("two", (Arrival(0.0, 374, 44), Arrival(4.3, 396, 109)))
    >>> len(few), few[1].prompt_len, few.first(1).label
    (2, 396, 'two, first 1 of 2 requests')
    """

    label: str
    arrivals: tuple[Arrival, ...]

    def __post_init__(self) -> None:
        if not self.arrivals:
            raise ValueError(f"{self.label}: holds no request")
        before = 0.0
        for i, one in enumerate(self.arrivals):
            if not before <= one.time_s < math.inf:
                raise ValueError(f"{self.label}: request {i} comes at {one.time_s} s, wanted {before} s or later")
            if one.prompt_len < 1 or one.output_len < 1:
                raise ValueError(
                    f"{self.label}: request {i} has {one.prompt_len} prompt and {one.output_len} output tokens, "
                    "wanted at least 1 of each"
                )
            before = one.time_s

    def __len__(self) -> int:
        return len(self.arrivals)

    @overload
    def __getitem__(self, i: int) -> Arrival: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[Arrival, ...]: ...
    def __getitem__(self, i: int | slice) -> Arrival | tuple[Arrival, ...]:
        return self.arrivals[i]

    def __iter__(self) -> Iterator[Arrival]:
        return iter(self.arrivals)

    def __repr__(self) -> str:
        return f"Stream({self.label!r}, {len(self):,} requests)"

    def first(self, n: int) -> Stream:
        """Its first n requests, as a stream whose label says so; all of them when there are no more."""
        if n < 1:
            raise ValueError(f"first({n}) of {self.label}: wanted at least 1 request")
        if n >= len(self):
            return self
        return Stream(f"{self.label}, first {n:,} of {len(self):,} requests", self.arrivals[:n])


# ---- by name -----------------------------------------------------------------------------------------------------


class Source(NamedTuple):
    label: str
    address: str
    sha256: str  # of the plain file


_AZURE = "https://raw.githubusercontent.com/Azure/AzurePublicDataset/b469a113cedca53ddc3bdea71a143dc4b7d8700c/data/"
_MOONCAKE = (
    "https://raw.githubusercontent.com/kvcache-ai/Mooncake/3b5a594133958449a1feaf1c9e0fc1b553e34a28/"
    "FAST25-release/traces/"
)
SOURCES = {
    "azure-conversation": Source(
        "Azure LLM inference trace 2023, conversation",
        _AZURE + "AzureLLMInferenceTrace_conv.csv",
        "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
    ),
    "azure-code": Source(
        "Azure LLM inference trace 2023, code",
        _AZURE + "AzureLLMInferenceTrace_code.csv",
        "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6",
    ),
    "mooncake-conversation": Source(
        "Mooncake FAST'25 trace, conversation",
        _MOONCAKE + "conversation_trace.jsonl",
        "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df",
    ),
    "mooncake-synthetic": Source(
        "Mooncake FAST'25 trace, synthetic",
        _MOONCAKE + "synthetic_trace.jsonl",
        "bd070915a98fc0ed264d7cfef2ce746002eb3076a695ec31ba2674c0111ec131",
    ),
}


def stream(name: str = "azure-conversation", seed: int = 0) -> Stream:
    """The real stream if it is on this machine, else a synthetic one: `.label` says which. Never uses the network.

    On this machine means: in the folder that REQPOOL_WORKLOADS names or, where that is not set, among the files that
    `load` has downloaded before.

    Raises:
        FileNotFoundError: it is not here, and only azure-conversation has a synthetic stand-in: the pauses of the
            other files are nothing like a Poisson stream's.
    """
    path = _here(name)
    if path is not None:
        return _named(name, path)
    if name != "azure-conversation":
        raise FileNotFoundError(f"{_nowhere(name)}, and it has no synthetic stand-in: load({name!r}) downloads it")
    return synthetic(seed)


def load(name: str) -> Stream:
    """The real stream, downloaded once if need be (needs the package pooch) and checked by its SHA-256.

    Raises:
        FileNotFoundError: REQPOOL_WORKLOADS names a folder that does not hold it; then nothing is downloaded.
    """
    path = _here(name)
    if path is None and os.environ.get(FOLDER_VARIABLE):
        raise FileNotFoundError(_nowhere(name))
    return _named(name, path or _download(name))


def _named(name: str, path: Path) -> Stream:
    return Stream(SOURCES[name].label, read(path).arrivals)


def _file_name(name: str) -> str:
    if name not in SOURCES:
        raise ValueError(f"no stream is called {name!r}: wanted one of {', '.join(SOURCES)}")
    return SOURCES[name].address.rsplit("/", 1)[1]


def _here(name: str) -> Path | None:
    file = _file_name(name)
    if os.environ.get(FOLDER_VARIABLE):
        folder = Path(os.environ[FOLDER_VARIABLE]).expanduser()
        found = [path for end in ("", ".xz") for at in ("", "*/") for path in sorted(folder.glob(at + file + end))]
        return found[0] if found else None
    if importlib.util.find_spec("pooch") is None:
        return None  # nothing can have been downloaded
    path = _cache() / file
    known = path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == SOURCES[name].sha256
    return path if known else None


def _nowhere(name: str) -> str:
    file, folder = _file_name(name), os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return f"{file} has not been downloaded"
    return f"{file} (or {file}.xz) is not in {folder!r}, the folder that {FOLDER_VARIABLE} names, nor in one inside it"


def _cache() -> Path:
    import pooch

    return Path(pooch.os_cache("reqpool"))


def _download(name: str) -> Path:
    if importlib.util.find_spec("pooch") is None:
        raise RuntimeError(f"downloading {name} needs the package pooch, not found here; stream() does without")
    import pooch

    source = SOURCES[name]
    return Path(pooch.retrieve(source.address, f"sha256:{source.sha256}", fname=_file_name(name), path=_cache()))


# ---- from a file -------------------------------------------------------------------------------------------------

Lines = Iterator[tuple[int, str]]  # number from 1 on, text without its end
Row = tuple[int, int, int, int]  # line number, time by the file's clock, prompt, output


def read(path: str | Path) -> Stream:
    """A file in the format its name says: .csv as the Azure 2023 traces, .jsonl as Mooncake's; .xz after either.

    Times count from the file's first request. Of Mooncake's lines the prefix blocks (`hash_ids`) are left out.

    Raises:
        ValueError: the first line that is not right, by file and number.
    """
    path = Path(path)
    suffixes = path.suffixes[-2:-1] if path.suffix == ".xz" else path.suffixes[-1:]
    formats: dict[str, tuple[Callable[[Lines], Iterator[Row]], int]]  # its reader, and how often its clock ticks
    formats = {".csv": (_azure_rows, 10**7), ".jsonl": (_mooncake_rows, 1000)}
    if not suffixes or suffixes[0] not in formats:
        raise ValueError(f"{path}: wanted a name that ends in .csv or .jsonl, or in one of these and .xz")
    rows_of, ticks_a_second = formats[suffixes[0]]
    arrivals: list[Arrival] = []
    number, start, before = 0, 0, 0
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            for number, clock, prompt_len, output_len in rows_of(_lines(file)):
                if not arrivals:
                    start = before = clock
                if clock < before:
                    late = (before - clock) / ticks_a_second
                    raise _BrokenLine(number, f"time runs backwards: it comes {late:.7f} s before the line above it")
                before = clock
                arrivals.append(Arrival((clock - start) / ticks_a_second, prompt_len, output_len))
    except _BrokenLine as error:
        raise ValueError(f"{path}, line {error.number}: {error.problem}") from error.__cause__
    except (lzma.LZMAError, EOFError) as error:
        raise ValueError(f"{path}: no whole xz file, it breaks off after line {number}: {error}") from error
    if not arrivals:
        raise ValueError(f"{path}: holds no request")
    return Stream(path.name, tuple(arrivals))


class _BrokenLine(Exception):
    """Internal: what is wrong, and with which line; `read` says it with the file's name."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(number, problem)
        self.number, self.problem = number, problem


def _lines(file: BinaryIO | lzma.LZMAFile) -> Lines:
    for number, raw in enumerate(file, 1):
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _BrokenLine(number, f"is no UTF-8 text ({error.reason})") from error
        yield number, text.rstrip("\r\n")


AZURE_COLUMNS = "TIMESTAMP,ContextTokens,GeneratedTokens"
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.(\d{7})", re.ASCII)
_EPOCH = datetime(1970, 1, 1)


def _azure_rows(lines: Lines) -> Iterator[Row]:
    number, head = next(lines, (1, ""))
    if head != AZURE_COLUMNS:
        raise _BrokenLine(number, f"wanted the columns {AZURE_COLUMNS}, got {head[:60]!r}")
    for number, text in lines:
        columns = text.split(",")
        if len(columns) != 3:
            raise _BrokenLine(number, f"wanted 3 columns, got {len(columns)}: {text[:60]!r}")
        stamp, prompt, output = columns
        lens = [_length(number, *one) for one in (("ContextTokens", prompt), ("GeneratedTokens", output))]
        yield number, _ticks(number, stamp), lens[0], lens[1]


def _ticks(number: int, stamp: str) -> int:
    """In units of 100 ns, as the file has it: a digit more than Python's datetime keeps."""
    match = _TIMESTAMP.fullmatch(stamp)
    try:
        if match is None:
            raise ValueError("wanted it as 2023-11-16 18:15:46.6805900")
        since = datetime.fromisoformat(match[1]) - _EPOCH
    except ValueError as error:
        raise _BrokenLine(number, f"TIMESTAMP {stamp[:40]!r} is no time: {error}") from error
    return (since.days * 86_400 + since.seconds) * 10**7 + int(match[2])


def _length(number: int, name: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise _BrokenLine(number, f"{name} {text[:40]!r} is not a number of tokens")
    return _in_range(number, name, int(text))


def _in_range(number: int, name: str, length: int) -> int:
    if not 1 <= length <= MAX_LEN:
        raise _BrokenLine(number, f"{name} is {length}, wanted 1..{MAX_LEN}")
    return length


def _mooncake_rows(lines: Lines) -> Iterator[Row]:
    for number, text in lines:
        try:
            facts = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _BrokenLine(number, f"is no JSON ({error}): {text[:60]!r}") from error
        if not isinstance(facts, dict):
            raise _BrokenLine(number, f"wanted a JSON object, got {text[:60]!r}")
        for name in ("timestamp", "input_length", "output_length"):
            if name not in facts:
                raise _BrokenLine(number, f"has no {name}: {text[:60]!r}")
            if type(facts[name]) is not int:
                raise _BrokenLine(number, f"{name} {json.dumps(facts[name])[:40]} is not a whole number")
        if not 0 <= facts["timestamp"] <= 10**15:
            raise _BrokenLine(number, f"timestamp is {facts['timestamp']}, wanted milliseconds from 0 on")
        lens = [_in_range(number, name, facts[name]) for name in ("input_length", "output_length")]
        yield number, facts["timestamp"], lens[0], lens[1]


# ---- made up -----------------------------------------------------------------------------------------------------

# Percentiles of the Azure 2023 conversation trace, computed 2026-11-30 from the whole file (19,366 requests).
# The p-th is the smallest length that at least p % of the requests do not exceed.
PERCENTS = (0, 1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.9, 100)
PROMPT_LENS = (2, 29, 181, 207, 387, 403, 703, 1020, 1071, 1130, 1315, 2735, 4083, 4142, 6212, 14050)
OUTPUT_LENS = (7, 16, 41, 54, 77, 91, 103, 129, 177, 384, 400, 424, 451, 601, 954, 1000)
REQUESTS_PER_S = 5.530  # 19,365 gaps in 3,501.722 s; their coefficient of variation is 1.09, a Poisson stream's is 1


def synthetic(seed: int = 0, num_requests: int = 19_366) -> Stream:
    """Requests as in the Azure conversation trace, made up: the same for the same seed, on every machine.

    Lengths are drawn along straight lines between the percentiles above, prompt and output independently (in the
    trace their correlation is -0.11); arrivals are a Poisson stream at the trace's rate. It has no rush hour.

    >>> synthetic(seed=1, num_requests=2) == synthetic(seed=1, num_requests=2) != synthetic(seed=2, num_requests=2)
    True
    """
    if num_requests < 1:
        raise ValueError(f"synthetic wants at least 1 request, got {num_requests}")
    rng = random.Random(seed)
    time_s, arrivals = 0.0, []
    for _ in range(num_requests):
        arrivals.append(Arrival(time_s, _between(PROMPT_LENS, rng.random()), _between(OUTPUT_LENS, rng.random())))
        time_s -= math.log(1.0 - rng.random()) / REQUESTS_PER_S
    label = "synthetic: percentiles of the Azure 2023 conversation trace, computed 2026-11-30"
    return Stream(f"{label}, seed {seed}", tuple(arrivals))


def _between(lens: tuple[int, ...], share: float) -> int:
    percent = 100 * share
    i = next(i for i in range(1, len(PERCENTS)) if percent <= PERCENTS[i])
    part = (percent - PERCENTS[i - 1]) / (PERCENTS[i] - PERCENTS[i - 1])
    return round(lens[i - 1] + part * (lens[i] - lens[i - 1]))
