"""The request-to-token pool of LLM serving engines: see it, break it, repair it.

Importing this loads the pool and the trace, and no display library; pictures are in `reqpool.views`,
the player is in `reqpool.player`.
"""

from reqpool.checked import CheckedPool
from reqpool.pool import Req, ReqToTokenPool, ReqToTokenPoolInfo
from reqpool.trace import Event, Snapshot, Trace, record

__all__ = ["CheckedPool", "Event", "Req", "ReqToTokenPool", "ReqToTokenPoolInfo", "Snapshot", "Trace", "record"]
