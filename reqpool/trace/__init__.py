"""What happened in a pool, as data: record it, replay it to any step, save and load it."""

from reqpool.trace.events import KINDS, Change, Event, Snapshot
from reqpool.trace.recorder import record
from reqpool.trace.replay import Trace

__all__ = ["KINDS", "Change", "Event", "Snapshot", "Trace", "record"]
