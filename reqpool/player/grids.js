// The table, in one of three ways: by how many cells it has.

const MAX_ELEMENTS = 2048; // cells drawn as elements
const MAX_CANVAS = 65535; // cells drawn on canvas; from here on an aggregate
const MAX_MARKED = 256; // cells on a canvas that are elements as well
const MAX_ROWS_IN_PAGE = 128; // rows of a canvas table that exist at once (their sticky labels are slow to scroll); beyond, those in view

/** A square of slanting lines: rising ones mean stale, falling ones the padding row. */
function hatch(ink, size, rising) {
  const tile = h("canvas", { width: size, height: size });
  const pen = tile.getContext("2d");
  pen.strokeStyle = ink;
  for (const x of [-size, 0, size]) pen.moveTo(x, rising ? size : 0), pen.lineTo(x + size, rising ? 0 : size);
  pen.stroke();
  return tile;
}

/** What a cell bears whose slot is another live cell's too, or the dummy slot, or none. */
const oddMark = (odd) => (odd === undefined ? null : odd > 0 ? `\u00d7${odd}` : "!");
const oddWords = (odd) => (odd > 0 ? `in ${odd} cells` : odd < 0 ? "no slot at all" : "the dummy slot");

/** How far to scroll a box of so much room for cells of this size: not at all if they are in view, else to their middle;
 *  for the first of them, if there is no room for all. */
function scrolledTo(now, room, cells, size, before = 0) {
  const span = (some) => [before + some.reduce((a, b) => Math.min(a, b)) * size, before + (some.reduce((a, b) => Math.max(a, b)) + 1) * size];
  const [all, first] = [span(cells), span(cells.slice(0, 1))];
  const [from, to] = all[1] - all[0] <= room ? all : first;
  return from < now || to > now + room ? (from + to - room) / 2 : now;
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
    const head = [h("div", { role: "columnheader", class: "head" }, h("span", { class: "number" }, "row"), " owner")];
    const lengths = h("div", { role: "columnheader", class: "lengths" }, "verified / alloced");
    const header = h("div", { role: "row", class: "row header", "aria-rowindex": 1 }, ...head, this.positions, lengths);
    const size = { "aria-rowcount": tape.rows + 1, "aria-colcount": tape.columns + 2 };
    const label = "the table: rows by positions, each cell a KV slot";
    this.element = h("div", { role: "grid", class: `grid ${kind}`, tabindex: "0", "aria-label": label, ...size });
    this.element.append(h("div", { role: "rowgroup", class: "top" }, header), this.body);
    [this.x, this.y] = [0, 0];
    this.differing = { cells: new Set(), lengths: new Set(), owners: new Set() };
    this.element.addEventListener("scroll", () => this.scrolled());
  }

  scrolled() {
    [this.x, this.y] = [this.element.scrollLeft, this.element.scrollTop];
    set(this.element, "data-more", this.x < this.furthest ? "" : null); // to the right of what is in view
  }

  /** Measure what the sticky labels leave of the box. Done on resize only: reading a layout while drawing is dear. */
  layout() {
    const [head, , lengths] = this.positions.parentElement.children;
    const right = getComputedStyle(lengths).right === "0px" ? lengths.offsetWidth : 0; // not sticky when narrow
    const { clientWidth, clientHeight } = this.element;
    this.inside = { width: clientWidth - head.offsetWidth - right, height: clientHeight - head.offsetHeight };
    this.above = this.body.offsetTop - head.offsetHeight;
    this.furthest = this.element.scrollWidth - clientWidth - 3;
    set(this.element, "data-more", this.x < this.furthest ? "" : null);
  }

  /** Bring the wrong cells or the first just-changed one into view, or the row where a late write changed a length only. */
  follow() {
    const { wrong, changed, hit } = this.tape;
    const cells = [...(wrong.size ? wrong : changed.slice(0, 1))].map((flat) => this.at(flat));
    if (cells.length) this.reveal(...[0, 1].map((axis) => cells.map((cell) => cell[axis])));
    else if (hit.length) this.reveal(hit.slice(0, 1));
  }

  /** Scroll the box, never the page, until the cells are clear of the sticky labels. */
  reveal(rows, positions) {
    const { x, y, inside, above, cellWidth, rowHeight } = this;
    const left = positions ? scrolledTo(x, inside.width, positions, cellWidth) : x;
    const top = scrolledTo(y, inside.height, rows, rowHeight, above);
    if (left !== x) this.element.scrollLeft = left;
    if (top !== y) this.element.scrollTop = top;
  }

  /** The middle of a row, as far down as the box shows it. */
  middleOf(row) {
    const { offsetTop, clientHeight } = this.element;
    const y = this.body.offsetTop + (row + 0.5) * this.rowHeight - this.element.scrollTop;
    return offsetTop + clamp(y, this.body.offsetTop - this.above, clientHeight);
  }

  /** Corner marks on what the other players of a group show otherwise. */
  differ(found) {
    for (const { row, head, lengths } of this.views.values()) {
      set(head, "data-differs", found.owners.has(row) ? "" : null);
      set(lengths, "data-differs", found.lengths.has(row) ? "" : null);
    }
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
    const flat = row * this.tape.columns + position;
    const [wrong, odd] = [this.tape.wrong.has(flat), this.tape.odd.get(flat)];
    const words = [...(cell.signs ? [`row ${row}`] : []), `position ${position}`, ...(state === "empty" ? ["empty"] : [`slot ${slot}`, state])];
    if (odd !== undefined) words.push(oddWords(odd));
    if (wrong) words.push("wrong");
    words.push(...(cell.signs ?? [])); // of a question
    set(cell, "aria-label", words.join(", "));
    set(cell, "data-wrong", wrong ? "" : null);
    set(cell, "data-odd", oddMark(odd));
    if (withText) setText(cell, state === "empty" ? "" : String(slot));
  }

  at(flat) {
    return this.tape.at(flat);
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
    const least = Math.max(24, 6 + 9 * digits);
    this.element.style.setProperty("--cell-width", `${least}px`);
    this.leastWidth = least * tape.columns;
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
    [this.marked, this.noted, this.lit] = [[], [], []];
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
    const noted = new Set([...tape.wrong, ...tape.odd.keys()]);
    for (const flat of new Set([...this.noted, ...noted])) this.fillCell(this.cells[flat], ...this.at(flat), true);
    this.noted = noted;
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
  leastWidth = 0; // it makes do

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
    this.ratio = (window.devicePixelRatio || 1) * scaleOf(this.element);
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
      view.canvas.height = Math.round(rowHeight * this.ratio);
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

  /** Cells that mean something now are elements over the canvas: just changed, wrong or odd, focused, lit. */
  overlay(...extra) {
    const { tape } = this;
    const changed = new Set(tape.changed.slice(0, MAX_MARKED));
    const wrong = [...tape.wrong, ...tape.odd.keys()].slice(0, MAX_MARKED);
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
      this.reveal([row], [position]);
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
    const x = (event.clientX - strip.getBoundingClientRect().left) / scaleOf(this.element);
    const position = Math.floor(x / this.cellWidth);
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
