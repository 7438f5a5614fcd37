"""Give a second environment most of the packages of this one, so that it has to fetch only what is to differ there.

    python tools/share_packages.py .venv-colab/bin/python tests/notebooks/colab.txt

What that file names without a version, and everything that is asked for by anything in the file, goes there as hard
links (copies, where the disk has none), file by file as pip noted them. What it pins does not: that is for pip, which
sees the rest as installed. So the second environment costs seconds, and no second PyTorch.
"""

import os
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def requirements(file: Path) -> list[Requirement]:
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def closure(names: list[str]) -> dict[str, Distribution]:
    """These packages and everything that they ask for, by name, as far as it is installed here."""
    found: dict[str, Distribution] = {}
    wanted = [canonicalize_name(name) for name in names]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # asked for on another platform, say
        needs = [Requirement(text) for text in found[name].requires or ()]
        wanted += [
            canonicalize_name(need.name) for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})
        ]
    return found


def share(one: Distribution, target: Path) -> None:
    """Link the package's files. What lies outside the folder of packages (commands, data) stays behind."""
    source = Path(str(one.locate_file("")))
    for name in one.files or ():
        if ".." in name.parts or not (source / name).is_file():
            continue
        to = target / name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.unlink(missing_ok=True)
        try:
            os.link(source / name, to)
        except OSError:  # another disk, or one without hard links
            shutil.copy2(source / name, to)


def main(python: str, file: str) -> None:
    wanted = requirements(Path(file))
    pinned = {canonicalize_name(one.name) for one in wanted if one.specifier}
    code = "import sysconfig; print(sysconfig.get_path('platlib'))"
    target = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    shared = {name: one for name, one in closure([one.name for one in wanted]).items() if name not in pinned}
    for one in shared.values():
        share(one, Path(target))
    print(
        f"shared {len(shared)} packages; torch {shared['torch'].version if 'torch' in shared else 'is not among them'}"
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
