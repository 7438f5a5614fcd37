// The player: a whole trace, shipped to the browser once, drawn at any step without asking a kernel.
//
//   Tape       the trace: the pool's state after k events, seeking both ways by what each event changed
//   Playhead   which step, and whether it moves by itself; shared by all views of one widget
//   Row        one row's label and lengths
//   Grids      the table: elements (to 2,048 cells), strips of canvas (to 65,535), an aggregate of them (beyond)
//   SlotStrip  the same numbers seen from the KV cache
//   Recital    what each request has recited so far (only where a trace says so)
//   Lanes      the events of the schedule and the forward lane in time, and the arrow of a late write (likewise)
//   Player     one view: sentence, free rows, table, slots, transport, keys, theme
//
// In a notebook: the default export (anywidget calls it once per widget). On a page: mount(root, tape, options).

const MAX_ELEMENTS = 2048; // cells drawn as elements
const MAX_CANVAS = 65535; // cells drawn on canvas; from here on an aggregate
const MAX_MARKED = 256; // cells on a canvas that are elements as well
const MAX_ROWS_IN_PAGE = 512; // rows of a canvas table that exist at once; beyond, those in view
const MAX_SLOTS = 256;
const MAX_QUEUE = 12;
const REST_MS = 300; // the kernel hears of a step when it has been at rest for so long
const STATES = ["empty", "live", "stale", "padding"];
const HUES = ["0 114 178", "213 94 0", "0 158 115", "204 121 167", "230 159 0", "86 180 233"]; // Okabe-Ito
const SIGNS = ["solid", "dashed", "dotted", "double"]; // underlines, when the hues have been used up
const NEUTRAL = { hue: "128 136 150", sign: "solid" };
const LANES = ["schedule", "forward"];
const TALL = new Set(["alloc", "free", "late_write", "refuse", "retract", "clear"]);

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

  /** Cells in words: "row 1, positions 2 to 4; row 3, position 0". */
  where(flats) {
    const rows = new Map();
    for (const flat of [...flats].sort((a, b) => a - b)) {
      const row = Math.floor(flat / this.columns);
      rows.set(row, [...(rows.get(row) ?? []), flat % this.columns]);
    }
    const said = [...rows].slice(0, 4).map(([row, positions]) => `row ${row}, ${ranges("position", positions)}`);
    return [...said, ...(rows.size > 4 ? [`and ${rows.size - 4} more rows`] : [])].join("; ");
  }

  /** Where other traces, with tables of this size, are not the same at their step: cells by slot, rows by lengths. */
  differences(others) {
    const [cells, rows] = [new Set(), new Set()];
    for (const { table, verified, alloced } of others) {
      for (let row = 0; row < this.rows; row++) {
        if (this.verified[row] !== verified[row] || this.alloced[row] !== alloced[row]) rows.add(row);
        const [mine, theirs] = [this.table[row], table[row]];
        for (let p = 0; (mine || theirs) && p < this.columns; p++)
          if ((mine?.[p] ?? 0) !== (theirs?.[p] ?? 0)) cells.add(row * this.columns + p);
      }
    }
    return { cells, rows };
  }

  owner(row) {
    if (row === this.paddingRow) return { ...NEUTRAL, kind: "padding", name: "padding" };
    const rids = this.owners.get(row) ?? [];
    if (!rids.length) return { ...NEUTRAL, kind: "free", name: this.freeRows.has(row) ? "free" : "nobody" };
    const name = rids.map((rid) => (rid === null ? "by count" : rid === "" ? "(empty name)" : rid)).join(" + ");
    return { ...(this.colours.get(rids[0]) ?? NEUTRAL), kind: "owned", name };
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

  /** Every cell that names this slot, as flat indices; slot 0 means no slot except in live cells. */
  holders(slot) {
    const found = [];
    for (let row = 0; row < this.rows; row++) {
      if (row === this.paddingRow) continue;
      const cells = this.table[row];
      const end = slot ? (cells ? this.columns : 0) : Math.min(this.alloced[row], this.columns);
      for (let p = 0; p < end; p++) if ((cells?.[p] ?? 0) === slot) found.push(row * this.columns + p);
    }
    return found;
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

class Row {
  constructor(tape, row) {
    this.row = row;
    this.name = h("span", { class: "name" });
    this.head = h("div", { role: "rowheader", class: "head" }, h("span", { class: "number" }, String(row)), this.name);
    this.cells = h("div", { role: "presentation", class: "cells" });
    this.verified = h("i", { class: "verified" });
    this.alloced = h("i", { class: "alloced" });
    this.bar = h("span", { class: "bar", "aria-hidden": "true" }, this.alloced, this.verified);
    this.numbers = h("span", { class: "numbers" });
    this.fault = h("span", { class: "fault" });
    this.lengths = h("div", { role: "gridcell", class: "lengths" }, this.bar, this.numbers, this.fault);
    this.element = h("div", { role: "row", class: "row", "aria-rowindex": row + 2 }, this.head, this.cells, this.lengths);
  }

  draw(tape) {
    const { row } = this;
    const owner = tape.owner(row);
    paintOwner(this.element, owner);
    set(this.element, "data-kind", owner.kind);
    setText(this.name, owner.name);
    set(this.head, "title", `row ${row}: ${owner.name}`);
    this.head.classList.toggle("now", tape.event?.rows?.includes(row) ?? false);
    set(this.head, "data-hit", tape.hit.includes(row) ? "" : null);

    const [verified, alloced, faults] = [tape.verified[row], tape.alloced[row], tape.faults(row)];
    const unused = owner.kind === "padding" && !faults.length;
    const width = (length) => `scaleX(${clamp(length / tape.columns, 0, 1)})`;
    this.verified.style.transform = width(verified);
    this.alloced.style.transform = width(alloced);
    set(this.lengths, "data-unused", unused ? "" : null);
    setText(this.numbers, unused ? "no length counts here" : `${verified}/${alloced}`);
    setText(this.fault, faults.length > 1 ? `${faults[0]} +${faults.length - 1}` : (faults[0] ?? ""));
    set(this.head, "data-fault", faults.length ? "" : null);
    set(this.lengths, "title", [`verified ${verified}, alloced ${alloced}`, ...faults].join("; "));
  }
}

/** What the three kinds of table share: the header, the scroll box, and looking after the just-changed cell. */
class Grid {
  constructor(tape, kind) {
    this.tape = tape;
    this.body = h("div", { role: "rowgroup", class: "body" });
    this.positions = h("div", { role: "presentation", class: "cells" });
    const head = [h("div", { role: "columnheader", class: "head" }, h("span", { class: "number" }), "owner")];
    const lengths = h("div", { role: "columnheader", class: "lengths" }, "verified / alloced");
    const header = h("div", { role: "row", class: "row header", "aria-rowindex": 1 }, ...head, this.positions, lengths);
    const size = { "aria-rowcount": tape.rows + 1, "aria-colcount": tape.columns + 2 };
    const label = "the table: rows by positions, each cell a KV slot";
    this.element = h("div", { role: "grid", class: `grid ${kind}`, tabindex: "0", "aria-label": label, ...size });
    this.element.append(h("div", { role: "rowgroup", class: "top" }, header), this.body);
    [this.x, this.y] = [0, 0];
    this.differing = { cells: new Set(), rows: new Set() };
    this.element.addEventListener("scroll", () => this.scrolled());
  }

  scrolled() {
    [this.x, this.y] = [this.element.scrollLeft, this.element.scrollTop];
  }

  /** Measure what the sticky labels leave of the box. Done on resize only: reading a layout while drawing is dear. */
  layout() {
    const [head, , lengths] = this.positions.parentElement.children;
    const right = getComputedStyle(lengths).right === "0px" ? lengths.offsetWidth : 0; // not sticky when narrow
    const { clientWidth, clientHeight } = this.element;
    this.inside = { width: clientWidth - head.offsetWidth - right, height: clientHeight - head.offsetHeight };
    this.above = this.body.offsetTop - head.offsetHeight;
  }

  /** Bring the just-changed cell into view, or the row where a late write changed a length only. */
  follow() {
    const flat = this.tape.changed[0];
    if (flat !== undefined) this.reveal(...this.at(flat));
    else if (this.tape.hit.length) this.reveal(this.tape.hit[0]);
  }

  /** Scroll the box, never the page, until the cell is clear of the sticky labels. */
  reveal(row, position) {
    const { x, y, inside, above, cellWidth, rowHeight } = this;
    const [left, top] = [position === undefined ? x : position * cellWidth, above + row * rowHeight];
    if (left < x || left + cellWidth > x + inside.width) this.element.scrollLeft = left - (inside.width - cellWidth) / 2;
    if (top < y || top + rowHeight > y + inside.height) this.element.scrollTop = top - (inside.height - rowHeight) / 2;
  }

  /** The middle of a row, as far down as the box shows it. */
  middleOf(row) {
    const { offsetTop, clientHeight } = this.element;
    const y = this.body.offsetTop + (row + 0.5) * this.rowHeight - this.element.scrollTop;
    return offsetTop + clamp(y, this.body.offsetTop - this.above, clientHeight);
  }

  /** Corner marks on what the other players of a group show otherwise. */
  differ(found) {
    for (const { row, lengths } of this.views.values()) set(lengths, "data-differs", found.rows.has(row) ? "" : null);
    this.differing = found;
  }

  /** The row and position that an event is about. */
  find(event) {
    const cell = event.target.closest("[data-position]");
    return cell && place(cell);
  }

  fillCell(cell, row, position, withText) {
    const [slot, state] = [this.tape.slot(row, position), STATES[this.tape.state(row, position)]];
    set(cell, "data-slot", slot);
    set(cell, "data-state", state);
    const wrong = this.tape.wrong.has(row * this.tape.columns + position);
    const words = state === "empty" ? "empty" : `slot ${slot}, ${state}`;
    set(cell, "aria-label", `position ${position}, ${words}${wrong ? ", wrong" : ""}`);
    set(cell, "data-wrong", wrong ? "" : null);
    if (withText) setText(cell, state === "empty" ? "" : String(slot));
  }

  at(flat) {
    return [Math.floor(flat / this.tape.columns), flat % this.tape.columns];
  }

  newCell(row, position) {
    const where = { "data-row": row, "data-position": position, "aria-colindex": position + 2 };
    return h("div", { role: "gridcell", class: "cell", tabindex: "-1", ...where });
  }

  repaint() {}
}

class ElementGrid extends Grid {
  constructor(tape) {
    super(tape, "elements");
    const digits = String(Math.max(tape.slots - 1, tape.columns - 1, 0)).length;
    this.element.style.setProperty("--cell-width", `${Math.max(30, 12 + 9 * digits)}px`);
    this.element.style.setProperty("--columns", tape.columns);
    if (tape.rows > 20) this.element.classList.add("dense");
    this.shown = new Float64Array(tape.rows * tape.columns).fill(-1); // slot and state of each cell, as drawn
    this.views = Array.from({ length: tape.rows }, (_, row) => new Row(tape, row));
    this.cells = [];
    for (let p = 0; p < tape.columns; p++) this.positions.append(h("div", { role: "columnheader", class: "position" }, String(p)));
    for (const { row, cells, element } of this.views) {
      for (let p = 0; p < tape.columns; p++) this.cells.push(this.newCell(row, p));
      cells.append(...this.cells.slice(-tape.columns));
      this.body.append(element);
    }
    [this.marked, this.wrong, this.lit] = [[], [], []];
  }

  layout() {
    super.layout();
    this.cellWidth = this.cells[0].offsetWidth + 2; // and its margin
    this.rowHeight = this.views[0].element.offsetHeight;
  }

  cell(row, position) {
    return this.cells[row * this.tape.columns + position];
  }

  draw(touched) {
    const { tape } = this;
    for (const row of touched) {
      this.views[row].draw(tape);
      for (let p = 0, flat = row * tape.columns; p < tape.columns; p++, flat++) {
        const code = tape.slot(row, p) * 4 + tape.state(row, p);
        if (this.shown[flat] === code) continue;
        this.shown[flat] = code;
        this.fillCell(this.cells[flat], row, p, true);
      }
    }
    for (const flat of this.marked) set(this.cells[flat], "data-changed", null);
    for (const flat of (this.marked = tape.changed)) set(this.cells[flat], "data-changed", "");
    for (const flat of [...this.wrong, ...tape.wrong]) this.fillCell(this.cells[flat], ...this.at(flat), true);
    this.wrong = tape.wrong;
  }

  differ(found) {
    for (const flat of this.differing.cells) if (!found.cells.has(flat)) set(this.cells[flat], "data-differs", null);
    for (const flat of found.cells) set(this.cells[flat], "data-differs", "");
    super.differ(found);
  }

  light(flats) {
    for (const flat of this.lit) this.cells[flat].classList.remove("lit");
    for (const flat of flats) this.cells[flat].classList.add("lit");
    this.lit = flats;
  }
}

class CanvasGrid extends Grid {
  constructor(tape) {
    super(tape, "canvas");
    this.rowHeight = 14;
    this.views = new Map(); // row -> its Row, for the rows that exist now
    this.overlays = new Map(); // flat -> the element that lies over this cell
    this.lit = [];
    this.body.style.height = `${tape.rows * this.rowHeight}px`;
  }

  scrolled() {
    super.scrolled();
    if (this.tape.rows > MAX_ROWS_IN_PAGE) this.makeRows();
  }

  /** What width there is, 3 to 16 pixels (less only where a canvas could not be so wide). */
  widthOfCell(room) {
    const { columns } = this.tape;
    return Math.min(clamp(Math.floor(room / columns), 3, 16), 30000 / columns);
  }

  layout() {
    super.layout();
    this.cellWidth = this.widthOfCell(this.inside.width);
    this.element.style.setProperty("--strip", `${this.cellWidth * this.tape.columns}px`);
    const stride = 2 ** Math.ceil(Math.log2(Math.max(36 / this.cellWidth, 1)));
    const ticks = Array.from({ length: Math.ceil(this.tape.columns / stride) }, (_, i) => i * stride);
    const tick = (p) => h("div", { role: "columnheader", class: "position", style: `left:${p * this.cellWidth}px` }, String(p));
    this.positions.replaceChildren(...ticks.map(tick));
    this.repaint();
  }

  repaint() {
    if (!this.cellWidth) return;
    const style = getComputedStyle(this.element);
    this.ratio = window.devicePixelRatio || 1;
    this.ink = Object.fromEntries(["cell", "hatch", "tint"].map((name) => [name, style.getPropertyValue(`--${name}`)]));
    const pattern = (...tile) => h("canvas").getContext("2d").createPattern(hatch(this.ink.hatch, ...tile), "repeat");
    this.hatches = { stale: pattern(7, true), padding: pattern(4, false) };
    for (const { element } of this.views.values()) element.remove();
    this.views.clear();
    this.overlays.clear();
    this.makeRows();
  }

  makeRows() {
    const { tape, rowHeight } = this;
    let [from, to] = [0, tape.rows];
    if (tape.rows > MAX_ROWS_IN_PAGE) {
      from = Math.max(0, Math.floor(this.y / rowHeight) - 20);
      to = Math.min(tape.rows, from + Math.ceil(this.inside.height / rowHeight) + 40);
    }
    for (const [row, view] of this.views) if (row < from || row >= to) view.element.remove(), this.views.delete(row);
    const fresh = [];
    for (let row = from; row < to; row++) {
      if (this.views.has(row)) continue;
      const view = new Row(tape, row);
      view.canvas = h("canvas", { "aria-hidden": "true" });
      view.canvas.width = Math.round(this.cellWidth * tape.columns * this.ratio);
      view.canvas.height = rowHeight * this.ratio;
      view.cells.append(view.canvas);
      view.element.dataset.row = row;
      view.element.style.top = `${row * rowHeight}px`;
      this.views.set(row, view);
      fresh.push(row);
      this.body.append(view.element);
    }
    this.draw(fresh);
    this.differ(this.differing);
  }

  draw(touched) {
    if (!this.cellWidth) return;
    for (const row of touched) {
      const view = this.views.get(row);
      if (!view) continue;
      view.draw(this.tape);
      this.paint(view);
    }
    this.overlay();
  }

  /** One rectangle for each run of cells in the same state. */
  paint({ row, canvas, element }) {
    const { tape, ink, cellWidth, rowHeight } = this;
    const pen = canvas.getContext("2d");
    const hue = element.style.getPropertyValue("--hue");
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, cellWidth * tape.columns, rowHeight);
    for (let start = 0, end = 1; start < tape.columns; start = end++) {
      const state = tape.state(row, start);
      while (end < tape.columns && tape.state(row, end) === state) end++;
      const [x, width] = [start * cellWidth, (end - start) * cellWidth];
      pen.fillStyle = state === 1 ? `rgb(${hue} / ${ink.tint.trim()})` : ink.cell;
      pen.fillRect(x, 1, width, rowHeight - 2);
      if (state >= 2) pen.fillStyle = this.hatches[STATES[state]];
      else if (state === 1) pen.fillStyle = `rgb(${hue})`;
      if (state) pen.fillRect(x, state === 1 ? rowHeight - 3 : 1, width, state === 1 ? 2 : rowHeight - 2);
    }
  }

  /** Cells that mean something now are elements over the canvas: just changed, wrong, focused, lit. */
  overlay(...extra) {
    const { tape } = this;
    const changed = new Set(tape.changed.slice(0, MAX_MARKED));
    const wrong = [...tape.wrong].slice(0, MAX_MARKED);
    const differs = this.differing.cells;
    const lit = new Set(this.lit.slice(0, MAX_MARKED));
    const wanted = new Set([...changed, ...wrong, ...lit, ...[...differs].slice(0, MAX_MARKED), ...extra]);
    for (const [flat, cell] of this.overlays) {
      if ((wanted.has(flat) && cell.isConnected) || cell === document.activeElement) continue;
      cell.remove();
      this.overlays.delete(flat);
    }
    for (const flat of wanted) {
      const [row, position] = this.at(flat);
      const view = this.views.get(row);
      if (!view) continue;
      let cell = this.overlays.get(flat);
      if (!cell) {
        cell = this.newCell(row, position);
        cell.style.left = `${position * this.cellWidth}px`;
        this.overlays.set(flat, cell);
        view.cells.append(cell);
      }
      this.fillCell(cell, row, position, false);
      set(cell, "data-changed", changed.has(flat) ? "" : null);
      set(cell, "data-differs", differs.has(flat) ? "" : null);
      cell.classList.toggle("lit", lit.has(flat));
    }
  }

  cell(row, position) {
    if (!this.views.has(row)) {
      this.reveal(row, position);
      this.scrolled();
    }
    const flat = row * this.tape.columns + position;
    this.overlay(flat);
    return this.overlays.get(flat);
  }

  light(flats) {
    this.lit = flats;
    this.overlay();
  }

  differ(found) {
    super.differ(found);
    if (this.cellWidth) this.overlay();
  }

  find(event) {
    const strip = event.target.closest(".cells");
    const row = strip?.parentElement.dataset.row;
    if (row === undefined || event.target.dataset.position) return super.find(event);
    const position = Math.floor((event.clientX - strip.getBoundingClientRect().left) / this.cellWidth);
    return { row: Number(row), position: clamp(position, 0, this.tape.columns - 1) };
  }
}

/** Too many cells to tell apart: the strips of a canvas squeezed into the width there is, and a sentence that says so. */
class AggregateGrid extends CanvasGrid {
  constructor(tape) {
    super(tape);
    const size = `${count(tape.rows)} rows \u00d7 ${count(tape.columns)} positions = ${count(tape.rows * tape.columns)} cells`;
    const words = `${size}, too many to draw one by one. This is an aggregate: a strip for each row in view, live, stale or empty.`;
    this.element.prepend(h("div", { role: "row", class: "summary" }, h("div", { role: "gridcell" }, words)));
  }

  widthOfCell(room) {
    return Math.max(room, 100) / this.tape.columns;
  }
}

class SlotStrip {
  constructor(tape) {
    this.tape = tape;
    this.chips = [];
    this.element = h("div", { class: "slots", role: "group", "aria-label": "KV slots" }, h("span", { class: "label" }, "KV slots"));
    if (tape.slots > MAX_SLOTS) this.element.append(h("span", { class: "muted" }, `${count(tape.slots)} of them, too many to draw here`));
    else this.chips = Array.from({ length: tape.slots }, (_, slot) => h("span", { class: "slot", "data-kv-slot": slot }, String(slot)));
    this.element.append(...this.chips);
    this.element.hidden = !tape.slots;
    this.shown = [];
    this.now = [];
    this.lit = [];
  }

  draw() {
    const { tape, chips } = this;
    if (!chips.length) return;
    const rows = chips.map(() => []); // the rows whose live cells hold the slot
    for (let row = 0; row < tape.rows; row++)
      if (row !== tape.paddingRow)
        for (let p = Math.min(tape.alloced[row], tape.columns) - 1; p >= 0; p--) {
          const held = rows[tape.slot(row, p)];
          if (held && held.at(-1) !== row) held.push(row);
        }
    rows.forEach((held, slot) => {
      const owner = held.length ? tape.owner(held[0]) : NEUTRAL;
      const looks = `${held.length} ${owner.hue} ${owner.sign}`;
      if (this.shown[slot] === looks) return;
      this.shown[slot] = looks;
      paintOwner(chips[slot], owner);
      chips[slot].classList.toggle("held", held.length > 0);
      set(chips[slot], "data-holders", held.length > 1 ? held.length : null);
    });
    this.now = this.mark("now", this.now, new Set((tape.event?.cells ?? []).filter((slot, i) => i % 3 === 2 && slot > 0)));
  }

  light(slots) {
    this.lit = this.mark("lit", this.lit, slots);
  }

  mark(name, before, after) {
    for (const slot of before) this.chips[slot]?.classList.remove(name);
    for (const slot of after) this.chips[slot]?.classList.add(name);
    return after;
  }
}

/** The texts are the proof: where a cell, a slot or a length is wrong, sooner or later a letter is. */
class Recital {
  constructor(tape) {
    this.tape = tape;
    this.shown = [];
    const longest = []; // keeps its room, so that nothing moves when letters come and go
    for (const lines of new Set(tape.texts))
      lines.forEach((line, i) => line.text.length < longest[i]?.text.length || (longest[i] = line));
    this.views = longest.map((line) => {
      const label = h("span", { class: "label" }, `request ${line.label} recites`);
      const letters = h("span", { class: "letters", role: "img" });
      const room = h("span", { class: "room", "data-longest": line.text }, letters);
      return { label, letters, element: h("p", { "data-unsaid": "" }, label, room) };
    });
    this.element = h("div", { class: "recital", role: "group", "aria-label": "What the requests recite" });
    this.element.append(...this.views.map((view) => view.element));
    this.element.hidden = !this.views.length;
  }

  draw() {
    const lines = this.tape.texts[this.tape.step];
    this.views.forEach(({ element, label, letters }, i) => {
      const line = lines[i];
      if (line === this.shown[i]) return;
      set(element, "data-unsaid", line ? null : "");
      if (!line) return;
      const { text, wrong } = line;
      const bad = new Set(wrong);
      const spelt = Array.from(text, (letter, j) => (bad.has(j) ? h("b", { "data-wrong": "" }, letter) : letter));
      setText(label, `request ${line.label} recites`);
      letters.replaceChildren(...(text ? spelt : [h("span", { class: "muted" }, "nothing yet")]));
      letters.normalize(); // one text node for each run of right letters
      const numbers = wrong.map((j) => j + 1);
      const verdict = wrong.length ? `: ${ranges("letter", numbers)} ${wrong.length === 1 ? "is" : "are"} wrong` : "";
      set(letters, "aria-label", `${text || "nothing yet"}${verdict}`);
    });
    this.shown = lines;
  }
}

/** Marks on a line as long as the trace, one for each event: its colour is the owner's, height and dashes the kind's. */
function ticks(tape, belongs = () => true) {
  const paths = new Map();
  tape.events.forEach((event, i) => {
    const { kind, rid, owners } = event;
    if (!belongs(event)) return;
    const { hue } = tape.colours.get(rid ?? owners?.[0]?.slice(1).flat()[0]) ?? NEUTRAL;
    const key = `${hue}|${TALL.has(kind) ? "tall" : "short"} tick-${kind}`;
    paths.set(key, `${paths.get(key) ?? ""}M${i + 1} ${TALL.has(kind) ? 0 : 5}V12`);
  });
  const line = svg("svg", { viewBox: `0 0 ${Math.max(tape.last, 1)} 12`, preserveAspectRatio: "none", "aria-hidden": "true" });
  line.style.setProperty("--tick", `${clamp(300 / tape.last, 1, 3)}px`);
  for (const [key, d] of paths) {
    const [hue, kind] = key.split("|");
    line.appendChild(svg("path", { class: kind, d })).style.setProperty("--hue", hue);
  }
  return line;
}

class Lanes {
  constructor(tape, line) {
    this.tape = tape;
    this.tracks = LANES.map((lane) => {
      const steps = tape.events.flatMap((event, i) => (event.lane === lane ? [i + 1] : []));
      const [veil, here] = [h("i", { class: "veil" }), h("i", { class: "here" })];
      const element = h("div", { class: "track", role: "img", "data-lane": lane, "data-events": steps.length });
      element.append(ticks(tape, (event) => event.lane === lane), veil, here);
      return { lane, steps, element, veil, here };
    });
    [this.shaft, this.heads] = [svg("path", { class: "shaft" }), svg("path", { class: "heads" })];
    this.arrow = svg("svg", { class: "arrow", "aria-hidden": "true" });
    this.arrow.append(this.shaft, this.heads);
    const label = (words) => h("span", { class: "label" }, words);
    this.element = h("div", { class: "lanes" }, label("time"), line);
    for (const { lane, element } of this.tracks) this.element.append(label(`${lane} lane`), element);
  }

  /** Whoever wrote late, it was the forward lane. */
  laneNow() {
    return this.tape.event?.lane ?? (this.tape.hit.length ? "forward" : undefined);
  }

  draw() {
    const { tape } = this;
    const at = `${(100 * tape.step) / Math.max(tape.last, 1)}%`;
    const now = this.laneNow();
    const hit = tape.hit.length ? `, which hits ${ranges("row", [...tape.hit].sort((a, b) => a - b))}` : "";
    for (const { lane, steps, element, veil, here } of this.tracks) {
      veil.style.left = here.style.left = at;
      set(element, "data-now", lane === now ? "" : null);
      const played = steps.filter((step) => step <= tape.step).length;
      const event = lane === now ? `; now: ${tape.event.kind.replace("_", " ")}${hit}` : "";
      set(element, "aria-label", `${lane} lane: ${played} of ${plural(steps.length, "event")} played${event}`);
    }
    set(this.arrow, "data-rows", tape.hit.join(" ") || null);
  }

  /** From the forward lane, round the table's left edge, into each row: it covers no number. Reads the layout. */
  point(grid) {
    const { hit } = this.tape;
    if (!hit.length) return;
    const [box, from] = [this.arrow, this.tracks[1].here].map((element) => element.getBoundingClientRect());
    const [x, y] = [from.left + from.width / 2 - box.left, from.bottom - box.top];
    const bend = grid.element.offsetTop - 5;
    const into = hit.slice(0, 8).map((row) => grid.middleOf(row));
    set(this.shaft, "d", `M${x} ${y}V${bend}H7${into.map((row) => `M7 ${bend}V${row}H12`).join("")}`);
    set(this.heads, "d", into.map((row) => `M11 ${row - 5}L19 ${row}L11 ${row + 5}Z`).join(""));
  }
}

/** A square of slanting lines: rising ones mean stale, falling ones the padding row. */
function hatch(ink, size, rising) {
  const tile = h("canvas", { width: size, height: size });
  const pen = tile.getContext("2d");
  pen.strokeStyle = ink;
  for (const x of [-size, 0, size]) pen.moveTo(x, rising ? size : 0), pen.lineTo(x + size, rising ? 0 : size);
  pen.stroke();
  return tile;
}

/** The light or dark of whoever shows us: JupyterLab, Colab, VS Code, else the system. */
function isDark() {
  const [html, body] = [document.documentElement, document.body];
  if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false";
  if (html.hasAttribute("theme")) return html.getAttribute("theme") === "dark";
  if (/\bvscode-(dark|light|high-contrast)/.test(body.className)) return !/vscode-\S*light/.test(body.className);
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function watchTheme(changed) {
  const observer = new MutationObserver(changed);
  const attributes = { attributeFilter: ["class", "theme", "data-jp-theme-light"] };
  for (const element of [document.documentElement, document.body]) observer.observe(element, attributes);
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", changed);
  return () => (observer.disconnect(), system.removeEventListener("change", changed));
}

class Player {
  constructor(root, head, who) {
    this.root = root;
    this.head = head;
    this.who = who; // whose last step this is, to the playhead
    root.classList.add("reqpool-player");
    const hooks = { role: "group", tabindex: "0", "aria-label": "Player of the request-to-token table" };
    // JupyterLab takes the arrow keys for itself unless this attribute is there.
    for (const [name, value] of Object.entries({ ...hooks, "data-lm-suppress-shortcuts": "true" })) set(root, name, value);
    this.theme();
    this.listening = new AbortController();
    const on = (name, act) => root.addEventListener(name, act, { signal: this.listening.signal });
    on("keydown", (event) => this.key(event));
    on("pointermove", (event) => this.point(event));
    on("pointerleave", () => this.settle());
    on("focusin", (event) => this.point(event));
    on("focusout", (event) => root.contains(event.relatedTarget) || this.settle());
    this.resized = new ResizeObserver(() => this.layout());
    this.undo = [watchTheme(() => this.theme()), head.subscribe(() => this.draw()), () => this.resized.disconnect()];
  }

  destroy() {
    this.listening.abort();
    for (const undo of this.undo) undo();
    this.head.players.delete(this);
    this.head.tell();
    this.root.replaceChildren();
  }

  /** Replace everything by another tape; a later call wins over an earlier one that is still unpacking. */
  async load(text) {
    const turn = (this.turn = Symbol());
    try {
      const tape = await Tape.decode(text);
      if (turn === this.turn) this.build(tape);
    } catch (error) {
      if (turn === this.turn) this.fail(error);
    }
  }

  fail(error) {
    this.tape = null;
    const sentence = `The trace could not be unpacked: ${error.message || error.name}. A current browser and an unbroken file show it.`;
    this.root.replaceChildren(h("p", { class: "says", role: "status" }, sentence));
  }

  build(tape) {
    this.tape = tape;
    this.head.lasts.set(this.who, tape.last);
    this.head.step = clamp(this.head.step, 0, this.head.last);
    const cells = tape.rows * tape.columns;
    this.grid = new (cells <= MAX_ELEMENTS ? ElementGrid : cells <= MAX_CANVAS ? CanvasGrid : AggregateGrid)(tape);
    this.strip = new SlotStrip(tape);
    this.says = h("p", { class: "says", role: "status", "aria-live": "polite" });
    this.free = h("p", { class: "free" });
    this.detail = h("p", { class: "detail" });
    this.differs = h("p", { class: "differs", role: "note" });
    this.recital = new Recital(tape);
    const below = [this.detail, this.strip.element, this.recital.element, this.transport(), this.legend()];
    this.lanes = tape.events.some((event) => event.lane) ? new Lanes(tape, this.line) : null; // takes the time line up to it
    const lanes = this.lanes ? [this.lanes.element, this.lanes.arrow] : [];
    this.root.replaceChildren(this.says, this.differs, this.free, ...lanes, this.grid.element, ...below);
    this.grid.element.addEventListener("scroll", () => this.lanes?.point(this.grid));
    this.resized.disconnect();
    this.resized.observe(this.root);
    this.pointed = null;
    this.settle();
    this.width = null;
    this.head.players.add(this);
    this.layout();
    this.shown = null;
    this.head.tell();
  }

  transport() {
    const button = (text, act) => {
      const element = h("button", { type: "button" }, text);
      element.addEventListener("click", act);
      return element;
    };
    const { head } = this;
    this.playButton = button("Play", () => head.play());
    const buttons = [
      button("First step", () => head.move(0)),
      button("Step back", () => head.move(this.tape.step - 1)),
      this.playButton,
      button("Step forward", () => head.move(this.tape.step + 1)),
      button("Last step", () => head.move(head.last)),
    ];
    const range = { type: "range", min: 0, max: this.tape.last, step: 1, value: 0, "aria-label": "Step" };
    this.scrubber = h("input", { ...range, "data-lm-suppress-shortcuts": "true" });
    this.scrubber.addEventListener("input", () => head.move(Number(this.scrubber.value)));
    this.line = h("div", { class: "line" }, ticks(this.tape), this.scrubber);
    return h("div", { class: "transport" }, h("div", { class: "buttons" }, ...buttons), this.line);
  }

  legend() {
    const item = (state, words) => h("span", {}, h("i", { class: `sample ${state}` }), words);
    const items = [item("live", "owned, live"), item("changed", "just changed"), item("stale", "stale: beyond the row's length")];
    if (this.tape.paddingRow !== null) items.push(item("padding", "padding row"));
    if (this.tape.events.some((event) => event.wrong)) items.push(item("wrong", "wrong"));
    return h("p", { class: "legend" }, ...items);
  }

  draw() {
    const start = performance.now();
    const { root, head, tape } = this;
    set(root, "data-playing", head.playing);
    if (!tape) return;
    tape.seek(head.step);
    set(root, "data-step", tape.step);
    set(root, "data-last-step", tape.last);
    setText(this.playButton, head.playing ? "Pause" : "Play");
    set(this.says, "aria-live", head.playing ? "off" : "polite");
    if (this.shown !== tape.step) {
      const { kind } = tape.caption();
      this.says.replaceChildren(...this.sentence(tape.step));
      if (Number(this.scrubber.value) !== tape.step) this.scrubber.value = tape.step;
      set(this.scrubber, "aria-valuetext", `step ${tape.step} of ${tape.last}, ${kind}`);
      this.drawQueue();
      this.grid.draw(this.shown === null ? Array.from({ length: tape.rows }, (_, row) => row) : tape.touched);
      tape.touched.clear();
      this.shown = tape.step;
      this.strip.draw();
      this.recital.draw();
      this.lanes?.draw();
      if (this.pointed) this.show(this.pointed);
      cancelAnimationFrame(this.following); // scrolling needs the layout, which the frame makes anyway
      this.following = requestAnimationFrame(() => (this.grid.follow(), this.lanes?.point(this.grid)));
    }
    this.compare();
    performance.clearMeasures("reqpool:draw"); // an observer has been told; a page left playing must not hoard them
    performance.measure("reqpool:draw", { start });
  }

  sentence(k) {
    const { kind, text } = this.tape.caption(k);
    return [h("span", { class: "count" }, `step ${k} of ${this.tape.last}`), " ", h("strong", {}, kind), `: ${text}`];
  }

  /** What differs from the other players of the group, where their tables have the same size. */
  compare() {
    const { head, tape } = this;
    const alike = ({ who, tape: other }) => who !== this.who && other?.rows === tape.rows && other.columns === tape.columns;
    const others = [...head.players].filter(alike).map((player) => player.tape);
    const compared = others.length > 0;
    if (!compared && this.differs.hidden) return;
    for (const other of others) other.seek(head.step); // some are drawn after this one
    const found = tape.differences(others);
    this.grid.differ(found);
    this.differs.hidden = !compared;
    for (const name of ["title", "aria-label"]) set(this.differs, name, null);
    const { cells, rows } = found;
    if (!cells.size && !rows.size) return setText(this.differs, "the table is the same as the other player's");
    const say = (cells, rows) => `unlike the other player: ${[cells, rows].filter(Boolean).join(", ")}`;
    const lengths = (which) => rows.size && `lengths of ${which}`;
    const words = say(cells.size && tape.where(cells), lengths(ranges("row", [...rows])));
    for (const name of ["title", "aria-label"]) set(this.differs, name, words);
    const short = say(cells.size && plural(cells.size, "cell"), lengths(plural(rows.size, "row")));
    this.differs.replaceChildren(h("i", { class: "sample differs" }), short);
  }

  drawQueue() {
    const { free, event, reuse } = this.tape;
    const fresh = new Set(event?.free?.[2]);
    const chip = (row) => h("span", { class: fresh.has(row) ? "chip now" : "chip" }, String(row));
    const rest = free.length > MAX_QUEUE ? [`\u2026 and ${count(free.length - MAX_QUEUE)} more`] : free.length ? [] : ["none"];
    this.free.replaceChildren(`free rows (${reuse}), next first: `, ...free.slice(0, MAX_QUEUE).flatMap((row) => [chip(row), " "]), ...rest);
  }

  /** A pointer or the focus is on something: light it, its counterpart, and say what it is. */
  point(event) {
    if (!this.tape) return;
    const slot = event.target.closest("[data-kv-slot]")?.dataset.kvSlot;
    const at = slot !== undefined ? { slot: Number(slot) } : event.target.closest(".grid") && this.grid.find(event);
    if (!at) return this.pointed ? this.settle() : undefined;
    const { row, position } = this.pointed ?? {};
    if (this.pointed && row === at.row && position === at.position && this.pointed.slot === at.slot) return;
    this.show((this.pointed = at));
  }

  show({ row, position, slot }) {
    const { tape } = this;
    if (slot === undefined) {
      const inCell = tape.state(row, position) ? [tape.slot(row, position)] : [];
      setText(this.detail, tape.describe(row, position));
      this.strip.light(inCell);
      return this.grid.light([row * tape.columns + position]);
    }
    const cells = tape.holders(slot);
    const name = (flat) => tape.describe(...this.grid.at(flat)).replace(/ \u2192 slot \d+/, "");
    const more = cells.length > 4 ? `; and ${cells.length - 4} more` : "";
    const what = slot ? `slot ${slot}` : "slot 0, the dummy slot";
    setText(this.detail, cells.length ? `${what} \u2190 ${cells.slice(0, 4).map(name).join("; ")}${more}` : `${what}: in no cell`);
    this.strip.light([slot]);
    this.grid.light(cells);
  }

  /** Nothing is pointed at: back to the focused cell, if there is one. */
  settle() {
    if (!this.tape) return;
    const cell = document.activeElement?.closest?.("[data-position]");
    if (cell && this.root.contains(cell)) return this.show((this.pointed = place(cell)));
    this.pointed = null;
    this.strip.light([]);
    this.grid.light([]);
    setText(this.detail, "Point at a cell or a slot, or press Enter in the table, to see which is which.");
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || !this.tape) return;
    const { head, tape } = this;
    const steps = { ArrowLeft: tape.step - 1, ArrowRight: tape.step + 1, Home: 0, End: head.last };
    if (!this.keyInGrid(event)) {
      if (event.key === " ") {
        if (event.target.closest("button")) return; // the browser clicks it
        head.play();
      } else if (event.key in steps) head.move(steps[event.key]);
      else return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** Enter goes into the table, arrows move from cell to cell in there, Escape leaves. */
  keyInGrid({ key, target }) {
    const cell = target.closest("[data-position]");
    if (!cell) return key === "Enter" && target === this.grid.element && this.enter(this.cursor ?? { row: 0, position: 0 });
    if (key === "Escape") return this.grid.element.focus(), true;
    const { row, position } = place(cell);
    const to = {
      ArrowLeft: [row, position - 1],
      ArrowRight: [row, position + 1],
      ArrowUp: [row - 1, position],
      ArrowDown: [row + 1, position],
      Home: [row, 0],
      End: [row, this.tape.columns - 1],
    }[key];
    return to !== undefined && this.enter({ row: to[0], position: to[1] });
  }

  enter({ row, position }) {
    this.cursor = { row: clamp(row, 0, this.tape.rows - 1), position: clamp(position, 0, this.tape.columns - 1) };
    const cell = this.grid.cell(this.cursor.row, this.cursor.position);
    if (!cell) return false;
    cell.focus({ preventScroll: true });
    this.grid.reveal(this.cursor.row, this.cursor.position);
    return true;
  }

  /** On a new width, and when an element that was made before it was shown gets one at last. */
  layout() {
    if (!this.tape || this.width === this.root.clientWidth) return;
    this.width = this.root.clientWidth;
    this.theme();
    this.grid.layout();
    this.lanes?.point(this.grid);
    const { tape } = this;
    const length = (k) => tape.caption(k).text.length;
    const longest = [...tape.captions.keys()].sort((a, b) => length(b) - length(a)).slice(0, 20);
    // the room that the longest sentences take, so that the table stays where it is
    const ruler = h("div", { class: "ruler", "aria-hidden": "true" });
    ruler.append(...longest.map((k) => h("p", { class: "says" }, ...this.sentence(k))));
    this.root.append(ruler);
    this.sayHeight = Math.max(...Array.from(ruler.children, (says) => says.offsetHeight));
    ruler.remove();
    const players = [...this.head.players]; // those of a group keep their tables side by side
    const height = Math.max(...players.map((player) => player.sayHeight ?? 0));
    for (const { says } of players) says.style.minHeight = `${height}px`;
  }

  theme() {
    set(this.root, "data-theme", isDark() ? "dark" : "light");
    const ink = getComputedStyle(this.root).getPropertyValue("--hatch");
    // bitmaps: a gradient in each of a thousand cells is slow to paint
    this.root.style.setProperty("--stale", `url(${hatch(ink, 9, true).toDataURL()})`);
    this.root.style.setProperty("--padding", `url(${hatch(ink, 5, false).toDataURL()})`);
    this.grid?.repaint();
  }
}

/** Show a tape in an element of a page. Options: speed (steps a second), step, group (of players that move together). */
export function mount(root, tape, { speed = 2, step = 0, group = "" } = {}) {
  const head = Playhead.of(group, speed);
  head.lasts.set(root, Infinity); // until the tape is unpacked
  head.go(step);
  const player = new Player(root, head, root);
  return { head, player, ready: player.load(tape), destroy: () => (head.leave(root), player.destroy()) };
}

/** The anywidget front end. The playhead belongs to the widget, so all its views move together. */
export default () => {
  const who = {};
  let head;

  /** Moves go to the kernel once, when all is at rest; nothing waits for it. */
  function report(model) {
    const step = Math.min(head.step, head.lasts.get(who));
    const moved = { playing: head.playing, ...(head.playing ? {} : { step }) };
    const news = Object.entries(moved).filter(([name, value]) => model.get(name) !== value);
    if (!news.length) return;
    for (const [name, value] of news) model.set(name, value);
    model.save_changes();
  }

  return {
    initialize({ model }) {
      head = Playhead.of(model.get("group"), model.get("speed"));
      const rewind = () => {
        head.play(false);
        head.lasts.set(who, Infinity); // until a view has unpacked the tape
        head.step = model.get("step");
      };
      rewind();
      let timer;
      const silence = head.subscribe(() => {
        clearTimeout(timer);
        timer = setTimeout(report, REST_MS, model);
      });
      model.on("change:step", () => head.go(model.get("step")));
      model.on("change:playing", () => head.play(model.get("playing")));
      model.on("change:tape", rewind);
      return () => (clearTimeout(timer), silence(), head.leave(who));
    },

    render({ model, el }) {
      el.classList.add("reqpool-place");
      const root = el.appendChild(h("div"));
      const player = new Player(root, head, who);
      const load = async () => {
        await player.load(model.get("tape"));
        if (model.get("playing")) head.play(true);
      };
      model.on("change:tape", load);
      load();
      return () => (model.off("change:tape", load), player.destroy(), root.remove());
    },
  };
};
