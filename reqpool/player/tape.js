// The player: a whole trace, shipped to the browser once, drawn at any step without asking a kernel.
// One module, kept in pieces that assets.py joins in this order; each uses what stands before it.
//
//   tape.js    Tape       the trace: the pool's state after k events, seeking both ways by what each event changed
//              Playhead   which step, and whether it moves by itself; shared by all views of one widget, or of a group
//   grids.js   Row        one row's label and lengths
//              Grids      the table: elements (to 2,048 cells), strips of canvas (to 65,535), an aggregate (beyond)
//   strips.js  SlotStrip  the same numbers seen from the KV cache
//              Recital    what each request has recited so far (only where a trace says so)
//              Lanes      the schedule and the forward lane in time, and the arrow of a late write (likewise)
//   question.js Question  which cell? picked by hand, locked and marked by the kernel
//   large.js   LargeType  the switch for a projector
//   player.js  Player     one view: sentence, free rows, lanes, table, slots, texts, transport, keys, theme
//
// In a notebook: the default export (anywidget calls it once per widget). On a page: mount(root, tape, options).

const STATES = ["empty", "live", "stale", "padding"];
const HUES = ["0 114 178", "213 94 0", "0 158 115", "204 121 167", "230 159 0", "86 180 233"]; // Okabe-Ito
const SIGNS = ["solid", "dashed", "dotted", "double"]; // underlines, when the hues have been used up
const MAX_CHECKED = 65535; // cells of a table in which every step is searched for a slot that is there twice
const NEUTRAL = { hue: "128 136 150", sign: "solid" };

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const count = (n) => n.toLocaleString("en");
const listed = (words) => new Intl.ListFormat("en").format(words);
const plural = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;

function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children); // strings become text nodes: nothing of a trace is ever parsed as HTML
  return element;
}

/** Write an attribute only when it differs; null takes it away. */
function set(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

function svg(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const place = ({ dataset }) => ({ row: Number(dataset.row), position: Number(dataset.position) });

/** Everything inside is styled anew when these change, so they are written only then. */
function paintOwner(element, { hue, sign }) {
  if (element.hue === hue && element.sign === sign) return;
  Object.assign(element, { hue, sign });
  element.style.setProperty("--hue", hue);
  element.style.setProperty("--sign", sign);
}

function splice(list, at, remove, insert) {
  if (insert.length > 10000) return list.slice(0, at).concat(insert, list.slice(at + remove)); // too many arguments
  list.splice(at, remove, ...insert);
  return list;
}

/** 7, 1, 1 -> 7, 8, 9 */
const sums = (differences) => differences.map(((sum) => (difference) => (sum += difference))(0));

/** Runs of cells (flat, n, n slots before, n after) -> flat, before, after, flat, ... */
function triples(runs) {
  const cells = [];
  for (let i = 0; i < runs.length; ) {
    const [flat, n] = [runs[i], runs[i + 1]];
    const [before, after] = [sums(runs.slice(i + 2, i + 2 + n)), sums(runs.slice(i + 2 + n, (i += 2 + 2 * n)))];
    for (let j = 0; j < n; j++) cells.push(flat + j, before[j], after[j]);
  }
  return cells;
}

/** Of rising numbers: "position 3", "positions 0 and 3 to 5". */
function ranges(thing, numbers) {
  const runs = [];
  for (const n of numbers) {
    if (runs.at(-1)?.[1] === n - 1) runs.at(-1)[1] = n;
    else runs.push([n, n]);
  }
  const said = runs.slice(0, 5).map(([from, to]) => (from === to ? `${from}` : `${from} to ${to}`));
  if (runs.length > 5) said.push(`${runs.length - 5} more places`);
  return `${thing}${numbers.length === 1 ? "" : "s"} ${listed(said)}`;
}

/** n lines, of which these are news: [which, label, letters kept of the line before, letters added, wrong ones]. */
function recited(before, [n, ...news]) {
  const lines = before.slice(0, n);
  for (const [i, label, kept, added, wrong] of news) {
    const text = [...(before[i]?.text ?? "")].slice(0, kept).join("") + added;
    lines[i] = { label, text, wrong: sums(wrong) };
  }
  return lines;
}

/** How many rows are free at the most: the room that their line needs. */
function mostFree(free, events) {
  let most = free;
  for (const { free: change } of events) {
    if (change) free += change[2].length - change[1].length;
    most = Math.max(most, free);
  }
  return most;
}

class Tape {
  static async decode(text) {
    if (typeof DecompressionStream === "undefined") throw new Error("this browser has no DecompressionStream");
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const data = JSON.parse(await new Response(inflated).text());
    if (data.version !== 1) throw new Error(`it is of version ${data.version}, and this player reads version 1`);
    return new Tape(data);
  }

  constructor({ rows, columns, padding_row, reuse, slots, first, captions, events }) {
    Object.assign(this, { rows, columns, reuse, slots, captions, events, paddingRow: padding_row });
    this.step = 0;
    this.last = events.length;
    this.table = new Array(rows); // a row exists once a cell of it is not zero
    this.texts = [[]]; // what is recited after k events
    for (const event of events) {
      if (event.cells) event.cells = triples(event.cells);
      if (event.wrong) event.wrong = new Set(event.wrong);
      this.texts.push(event.texts ? recited(this.texts.at(-1), event.texts) : this.texts.at(-1));
    }
    this.mostFree = mostFree(first.free.length, events);
    this.touched = new Set(); // rows that may look different since they were drawn
    const cells = triples(first.cells);
    for (let i = 0; i < cells.length; i += 3) this.put(cells[i], cells[i + 2]);
    this.lengths = [first.verified, first.alloced, first.mirror ?? first.alloced.slice(), first.generation];
    [this.verified, this.alloced, this.mirror] = this.lengths;
    this.owners = new Map(first.owners);
    this.free = sums(first.free);
    this.freeRows = new Set(this.free);
    this.colours = this.assignColours();
  }

  /** rid -> hue and underline, in the order in which the requests first appear. */
  assignColours() {
    const rids = new Set([...this.owners.values()].flat());
    for (const event of this.events) {
      if (event.rid != null) rids.add(event.rid);
      for (const [, , after] of event.owners ?? []) for (const rid of after) rids.add(rid);
    }
    rids.delete(null); // a row handed out by count has no request
    const colour = (i) => ({ hue: HUES[i % HUES.length], sign: SIGNS[Math.floor(i / HUES.length) % SIGNS.length] });
    return new Map([...rids].map((rid, i) => [rid, colour(i)]));
  }

  put(flat, slot) {
    const row = Math.floor(flat / this.columns);
    (this.table[row] ??= new Int32Array(this.columns))[flat % this.columns] = slot;
    return row;
  }

  slot(row, position) {
    return this.table[row]?.[position] ?? 0;
  }

  /** An index into STATES. A cell is live below alloced, and stale when it is not zero beyond. */
  state(row, position) {
    if (row === this.paddingRow) return 3;
    if (position < this.alloced[row]) return 1;
    return this.slot(row, position) ? 2 : 0;
  }

  /** Go to the state after k events. */
  seek(k) {
    k = clamp(k, 0, this.last);
    if (k === this.step) return;
    for (const row of this.event?.rows ?? []) this.touched.add(row);
    while (this.step < k) this.apply(this.events[this.step++], true);
    while (this.step > k) this.apply(this.events[--this.step], false);
    for (const row of this.event?.rows ?? []) this.touched.add(row);
  }

  apply({ cells = [], lens = [], owners = [], free }, forward) {
    const { touched } = this;
    for (let i = 0; i < cells.length; i += 3) touched.add(this.put(cells[i], cells[i + (forward ? 2 : 1)]));
    for (let i = 0; i < lens.length; i += 4) {
      this.lengths[lens[i]][lens[i + 1]] = lens[i + (forward ? 3 : 2)];
      touched.add(lens[i + 1]);
    }
    for (const [row, before, after] of owners) {
      this.owners.set(row, forward ? after : before);
      touched.add(row);
    }
    if (!free) return;
    const [at, removed, inserted] = free;
    const [out, into] = forward ? [removed, inserted] : [inserted, removed];
    this.free = splice(this.free, at, out.length, into);
    for (const row of out) this.freeRows.delete(row), touched.add(row);
    for (const row of into) this.freeRows.add(row), touched.add(row);
  }

  /** The event that led here, if any. */
  get event() {
    return this.events[this.step - 1];
  }

  get changed() {
    return (this.event?.cells ?? []).filter((_, i) => i % 3 === 0);
  }

  /** The cells, as flat indices, that are wrong at this step. */
  get wrong() {
    return this.event?.wrong ?? new Set();
  }

  /** The rows that a late write hits at this step. */
  get hit() {
    return this.event?.kind === "late_write" ? this.event.rows : [];
  }

  caption(k = this.step) {
    const { kind = "start", wrong } = this.events[k - 1] ?? {};
    return { kind, text: wrong ? `${this.captions[k]} Wrong here: ${this.where(wrong)}.` : this.captions[k] };
  }

  /** Cells in words: "row 1, positions 2 to 4; row 3, position 0"; with the owners' names if wished. */
  where(flats, named = false) {
    const rows = new Map();
    for (const flat of [...flats].sort((a, b) => a - b)) {
      const row = Math.floor(flat / this.columns);
      rows.set(row, [...(rows.get(row) ?? []), flat % this.columns]);
    }
    const name = (row) => (named ? ` (${this.owner(row).name})` : "");
    const said = [...rows].slice(0, 4).map(([row, positions]) => `row ${row}${name(row)}, ${ranges("position", positions)}`);
    return [...said, ...(rows.size > 4 ? [`and ${rows.size - 4} more rows`] : [])].join("; ");
  }

  /**
   * Where other traces, with tables of this size, are not the same at their step: cells by slot, where one of both is
   * live, rows by lengths and by owners, and the queue of free rows by place. Cells that are live in none are only
   * counted: nobody reads them.
   */
  differences(others) {
    const found = { cells: new Set(), lengths: new Set(), owners: new Set(), places: new Set(), stale: 0 };
    for (const other of others) {
      for (let row = 0; row < this.rows; row++) this.compareRow(row, other, found);
      const places = Array.from({ length: Math.max(this.free.length, other.free.length) }, (_, i) => i);
      for (const i of places) if (this.free[i] !== other.free[i]) found.places.add(i);
    }
    return found;
  }

  compareRow(row, other, found) {
    const [mine, theirs] = [this.owner(row), other.owner(row)];
    if (mine.kind !== theirs.kind || mine.name !== theirs.name) found.owners.add(row);
    if (this.verified[row] !== other.verified[row] || this.alloced[row] !== other.alloced[row]) found.lengths.add(row);
    const live = row === this.paddingRow ? this.columns : Math.max(this.alloced[row], other.alloced[row]);
    const [here, there] = [this.table[row], other.table[row]];
    for (let p = 0; (here || there) && p < this.columns; p++) {
      if ((here?.[p] ?? 0) === (there?.[p] ?? 0)) continue;
      if (p < live) found.cells.add(row * this.columns + p);
      else found.stale++;
    }
  }

  owner(row) {
    if (row === this.paddingRow) return { ...NEUTRAL, kind: "padding", name: "padding" };
    const rids = this.owners.get(row) ?? [];
    if (!rids.length) return { ...NEUTRAL, kind: "free", name: this.freeRows.has(row) ? "free" : "nobody" };
    return { ...(this.colours.get(rids[0]) ?? NEUTRAL), kind: "owned", name: this.nameOf(rids) };
  }

  /** How many letters the longest name in the owners' column has. */
  get longestName() {
    const lists = [...this.owners.values(), ...this.events.flatMap(({ owners = [] }) => owners.map(([, , after]) => after))];
    const two = (rids) => (rids.length > 1 ? 3 : 0); // and the mark of a fault
    return Math.max("padding".length, ...lists.map((rids) => this.nameOf(rids).length + two(rids)));
  }

  nameOf(rids) {
    return rids.map((rid) => (rid === null ? "by count" : rid === "" ? "(empty name)" : rid)).join(" + ");
  }

  /** What is wrong with a row, worst first, in as few words as fit beside its lengths. */
  faults(row) {
    const [verified, alloced, mirror] = this.lengths.map((list) => list[row]);
    const faults = this.owners.get(row)?.length > 1 ? ["two owners"] : [];
    const nobodys = row === this.paddingRow ? "dummy write" : this.freeRows.has(row) ? "late write" : null;
    if (nobodys && (verified || alloced)) faults.push(nobodys);
    if (!nobodys && verified > alloced) faults.push("beyond alloced");
    if (alloced > this.columns) faults.push("beyond the row");
    if (mirror !== alloced) faults.push(`host mirror ${mirror}`);
    return faults;
  }

  describe(row, position) {
    const [slot, state, { name, kind }] = [this.slot(row, position), STATES[this.state(row, position)], this.owner(row)];
    const where = `row ${row} (${kind === "padding" ? "padding row" : name}), position ${position}`;
    const wrong = this.wrong.has(row * this.columns + position) ? ", wrong" : "";
    if (state === "empty") return `${where}: empty${wrong}`;
    const known = position < this.verified[row] ? "verified" : "not yet verified";
    const words = { live: `live, ${known}`, stale: "stale, beyond the row's length", padding: "no request's" }[state];
    return `${where} \u2192 slot ${slot}, ${words}${wrong}`;
  }

  /** Every cell that names this slot, as flat indices; slot 0 means no slot except in live cells and the padding row. */
  holders(slot) {
    const found = [];
    for (let row = 0; row < this.rows; row++) {
      const cells = this.table[row];
      const end = slot || row === this.paddingRow ? this.columns : Math.min(this.alloced[row], this.columns);
      for (let p = 0; (cells || !slot) && p < end; p++) if ((cells?.[p] ?? 0) === slot) found.push(row * this.columns + p);
    }
    return found;
  }

  /** Cells to be marked for what they say: flat -> how many live cells say the same slot; 0: it is the dummy slot; -1: it
   *  is none. */
  get odd() {
    if (this.oddAt === this.step) return this.oddCells;
    this.oddAt = this.step;
    this.oddCells = new Map();
    if (this.rows * this.columns > MAX_CHECKED) return this.oddCells;
    const cells = new Map(); // slot -> the live cells that say it
    for (let row = 0; row < this.rows; row++) {
      const end = row === this.paddingRow ? 0 : Math.min(this.alloced[row], this.columns);
      for (let p = 0, flat = row * this.columns; p < end; p++, flat++) {
        const slot = this.slot(row, p);
        const before = cells.get(slot);
        if (before === undefined) cells.set(slot, flat);
        else if (typeof before === "number") cells.set(slot, [before, flat]);
        else before.push(flat);
        if (slot <= 0) this.oddCells.set(flat, Math.max(slot, -1));
      }
    }
    for (const [slot, flats] of cells)
      if (slot > 0 && typeof flats !== "number") for (const flat of flats) this.oddCells.set(flat, flats.length);
    return this.oddCells;
  }

  /** What is odd about a live cell's slot, in words: "also in row 2 (b), position 0". */
  oddity(row, position) {
    const slot = this.slot(row, position);
    if (this.state(row, position) !== 1) return "";
    if (slot === 0) return "; a fault: slot 0 is the dummy slot";
    if (slot < 0) return `; a fault: ${slot} is no slot at all`;
    const flat = row * this.columns + position;
    const others = this.holders(slot).filter((at) => at !== flat && this.state(...this.at(at)) === 1);
    return others.length ? `; a fault, or shared: also in ${this.where(others, true)}` : "";
  }

  at(flat) {
    return [Math.floor(flat / this.columns), flat % this.columns];
  }
}

/** One for each widget, or for a group of players that move together (broken and mended, side by side). */
class Playhead {
  step = 0;
  playing = false;
  listeners = new Set();
  lasts = new Map(); // who -> its last step; the longest trace counts, shorter ones wait at their ends
  players = new Set();

  /** Every widget loads this module anew, so groups are kept where all can see them. */
  static of(group, speed) {
    const groups = (globalThis[Symbol.for("reqpool.playheads")] ??= new Map());
    const head = groups.get(group) ?? new Playhead(speed);
    if (group) groups.set(group, head);
    return head;
  }

  constructor(speed) {
    this.period = 1000 / clamp(speed, 0.1, 20);
  }

  get last() {
    return Math.max(0, ...this.lasts.values());
  }

  leave(who) {
    this.lasts.delete(who);
    if (!this.lasts.size) this.play(false);
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  tell() {
    for (const listener of this.listeners) listener();
  }

  go(step) {
    const before = this.step;
    this.step = clamp(Math.round(step), 0, this.last);
    if (this.step !== before) this.tell();
  }

  /** A hand on the controls ends the playing. */
  move(step) {
    this.play(false);
    this.go(step);
  }

  play(on = !this.playing) {
    if (on === this.playing || (on && !this.last)) return;
    if (on && this.step === this.last) this.step = 0;
    this.playing = on;
    this.due = performance.now() + this.period;
    cancelAnimationFrame(this.frame);
    if (on) this.frame = requestAnimationFrame(this.tick);
    this.tell();
  }

  tick = (now) => {
    if (!this.playing) return;
    if (now >= this.due) {
      this.due = Math.max(this.due + this.period, now); // after a pause of the page, no hurry to catch up
      this.step = Math.min(this.step + 1, this.last);
      this.playing = this.step < this.last;
      this.tell();
    }
    if (this.playing) this.frame = requestAnimationFrame(this.tick);
  };
}
