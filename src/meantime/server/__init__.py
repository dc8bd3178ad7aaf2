"""The server of `meantime view`: histories as lanes and tiles, and answers about them.

- `session`: the files of a page: read in threads, followed, aligned.
- `lanes`: the lanes of one moment of a history as a tree, which finds what is in it.
- `lane_layout`, `lane_names`, `sampled_stacks`: which lanes there are, and in which blocks; their
  names; the stacks that samples show, as spans.
- `lane_blocks`, `lane_columns`: one lane, and the lanes that a tile has together; lanes as columns
  of JSON.
- `tiles`, `span_overview`: 512 bins of a block, each 2^k ns wide; sums of many spans in narrow
  bins, from which wide tiles are made.
- `places`, `context`, `moment`: what is at a place; what is around the thing there; what all lanes
  do at a time, and when each is active.
- `answers`, `search`, `sql`, `critical_path`: what a range contains, what has a name, what a
  statement selects, why a thread took its time.
- `questions`, `parameters`, `documents`: which question of a page each of these answers, from the
  parameters of a request; times in JSON.
- `work`: long answers: computed once, with their progress, and ended when nobody waits.
- `notes`: notes beside the first file.
- `app`, `run`: the endpoints and who may use them; the socket and Ctrl-C.
- `onefile`, `view`: the page with all data inside; `meantime.view`.
- `tour`, `demo`: what a page leads through; the recordings of `meantime view --demo`.

A session shows a file as a `LaneTree` of a snapshot, which never changes: a growing file gets a
new one, and its `layout` increases only if the lanes differ. A request uses the tree that it
found, so its answer is of one moment. A group of more than 2,000 lanes has parts; of very many
lanes, those in parts have no names on a page until it opens them, as names are nearly all that a
million lanes take. While a trace is read, snapshots are taken in the reading thread, between two
batches, for at most a tenth of its time.

A page is drawn before it asks a question, so the code of answers is imported with the first
question (`questions`), and the builder and readers only for a trace.

Work runs in threads: tiles, what is under the pointer, and long answers have their own, so that a
long statistic keeps nothing else waiting. A request that waits for a thread and whose page has
gone is dropped. A long answer is computed once for all pages that wait for it, ends when the last
of them goes, and is kept while it is among the last 64 MB.
"""
