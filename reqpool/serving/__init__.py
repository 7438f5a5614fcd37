"""Requests to tokens: a small but honest engine on the real pool, with a model that recites."""

from reqpool.serving.engine import Engine, recite
from reqpool.serving.graph import GraphRunner
from reqpool.serving.recite import DUMMY, LETTERS, Recite
from reqpool.serving.requests import Request
from reqpool.serving.scheduler import Entry, Scheduler

__all__ = ["DUMMY", "LETTERS", "Engine", "Entry", "GraphRunner", "Recite", "Request", "Scheduler", "recite"]
