"""The player's script and style as the browser gets them: one module, one sheet."""

from importlib.resources import files

PIECES = ("tape.js", "grids.js", "strips.js", "question.js", "large.js", "player.js")


def _read(name: str) -> str:
    return files("reqpool.player").joinpath(name).read_text(encoding="utf-8")


ESM = "\n".join(_read(name) for name in PIECES)
CSS = _read("player.css")
