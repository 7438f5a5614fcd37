"""Small named stories, each a function that plays it on a real pool and returns the Trace.

    alloc_and_free    rows taken and given back: a batch refused as a whole, a row reused
    come_and_go       the same with any number of requests: what the live experiment of chapter 02 plays
    free_twice        an aborted request's row is given back a second time when its result arrives
    chunked_prefill   a long prompt in pieces keeps its row while another request comes and goes
    row_read_while_freed   a row given back between two pieces is read by the forward step that still has its number
    padding_row       a fixed-size batch: the dummy entries read and write row 0
    late_write        a forward step writes a length after its row was freed; the reuse resets it
    two_owners        one slot in two rows: the sums balance, the text does not
    one_row           the smallest picture of live and stale cells: what an exercise shows
    stale_cells       a row read without its length shows the previous owner's slots

Whatever damage a story shows was found in the tensors. A `pool_class` from `reqpool.faulty` plays the broken variant.
"""

from reqpool.scenarios.alloc_free import alloc_and_free, come_and_go, free_twice
from reqpool.scenarios.cells import one_row, stale_cells, two_owners
from reqpool.scenarios.chunks import chunked_prefill, row_read_while_freed
from reqpool.scenarios.late import late_write
from reqpool.scenarios.padding import padding_row

__all__ = [
    "alloc_and_free",
    "chunked_prefill",
    "come_and_go",
    "free_twice",
    "late_write",
    "one_row",
    "padding_row",
    "row_read_while_freed",
    "stale_cells",
    "two_owners",
]
