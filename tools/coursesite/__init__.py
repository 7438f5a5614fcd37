"""The course as pages that need no kernel: what `make site` writes.

run.py        a notebook is executed, and its kernel says what each question would open
asked.py      that last cell, which runs in the kernel
widgets.py    the widgets of a notebook as HTML: players stay players, controls become a list of settings
pages.py      a chapter and the front page, from nbconvert's HTML
site.css, site.js, templates/    how it looks and moves; the player's own sheet and script are put before them
"""
