// One view of a tape, and the two ways to get it in front of somebody.

const MAX_FREE = 12; // free rows that are named
const QUIET = "data-lm-suppress-shortcuts"; // JupyterLab takes no key from an element that has it, nor from what is inside
const BROWSERS = () => {}; // a key that means what it always means in a browser
const EDGES = 36; // of a player: what its padding takes of its width
const [HEAD, LENGTHS] = [150, 212]; // the width of the labels left and right of the cells, with bars,
const [TIGHT_HEAD, TIGHT_LENGTHS] = [104, 96]; // and without
const NARROW = 560; // no room for bars in any table
const NEAR = 150; // players with so little between them stand one above the other
const REST_MS = 300; // the kernel hears of a step when it has been at rest for so long

/** This page and, if it is a frame, the page around it: of another origin there is no frameElement. */
const pages = () => [document, window.frameElement?.ownerDocument].filter(Boolean);

/** The light or dark of whoever shows us: JupyterLab, Colab, VS Code, else the system. */
function isDark() {
  for (const { documentElement: html, body } of pages()) {
    if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false";
    if (html.hasAttribute("theme")) return html.getAttribute("theme") === "dark";
    if (/\bvscode-(dark|light|high-contrast)/.test(body.className)) return !/vscode-\S*light/.test(body.className);
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function watchTheme(changed) {
  const observer = new MutationObserver(changed);
  const attributes = { attributeFilter: ["class", "theme", "data-jp-theme-light"] };
  for (const { documentElement, body } of pages()) for (const element of [documentElement, body]) observer.observe(element, attributes);
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", changed);
  return () => (observer.disconnect(), system.removeEventListener("change", changed));
}

class Player {
  constructor(root, head, who, { large, question = null }) {
    this.root = root;
    this.large = large;
    this.question = question;
    this.head = head;
    this.who = who; // whose last step this is, to the playhead
    root.classList.add("reqpool-player");
    const hooks = { role: "group", tabindex: "0", "aria-label": "Player of the request-to-token table" };
    for (const [name, value] of Object.entries({ ...hooks, [QUIET]: "true" })) set(root, name, value);
    this.theme();
    this.loud = []; // elements whose mark is away for a moment
    this.listening = new AbortController();
    const on = (name, act) => root.addEventListener(name, act, { signal: this.listening.signal });
    on("keydown", (event) => this.key(event));
    const first = { capture: true, signal: this.listening.signal }; // at the window: before JupyterLab, which listens at the document
    window.addEventListener("keydown", (event) => this.letThrough(event), first);
    on("mousedown", (event) => this.press(event));
    on("click", (event) => this.choose(event));
    on("pointermove", (event) => this.point(event));
    on("pointerleave", () => this.settle());
    on("focusin", (event) => this.point(event));
    on("focusout", (event) => root.contains(event.relatedTarget) || this.settle());
    this.resized = new ResizeObserver(() => this.layout());
    large.show(root, () => this.resize());
    this.undo = [() => large.destroy(), watchTheme(() => this.theme()), head.subscribe(() => this.draw()), () => this.resized.disconnect()];
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
    const { question } = this;
    const below = [this.detail, this.strip.element, this.recital.element, this.transport(), this.legend()];
    this.lanes = !question && tape.events.some((event) => event.lane) ? new Lanes(tape, this.line) : null; // takes the time line up to it
    const lanes = this.lanes ? [this.lanes.element, this.lanes.arrow] : [];
    const table = [this.grid.element, ...(question ? [question.line] : [])];
    this.root.replaceChildren(this.says, this.differs, this.free, ...lanes, ...table, ...below);
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
    question?.show(this.root, this.grid);
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
    this.scrubber = h("input", { ...range, [QUIET]: "true" });
    this.scrubber.addEventListener("input", () => head.move(Number(this.scrubber.value)));
    this.line = h("div", { class: "line" }, ticks(this.tape), this.scrubber);
    const [moving, line] = this.question ? [[], []] : [buttons, [this.line]];
    return h("div", { class: "transport" }, h("div", { class: "buttons" }, ...moving, this.large.button), ...line);
  }

  legend() {
    const item = (sample, words) => h("span", {}, sample, words);
    const box = (state, words) => item(h("i", { class: `sample ${state}` }), words);
    const items = [box("live", "owned, live"), box("changed", "just changed"), box("stale", "stale: beyond the row's length")];
    if (this.tape.paddingRow !== null) items.push(box("padding", "padding row"));
    this.wrongItem = box("wrong", "wrong");
    this.wrongItem.hidden = !this.tape.events.some((event) => event.wrong);
    items.push(this.wrongItem);
    this.oddItem = h("span", { hidden: "" }, h("i", { class: "sample odd" }), "slot in two live cells, or the dummy slot in one");
    this.noneItem = h("span", { hidden: "" }, h("i", { class: "sample odd none" }), "\u22121 in a live cell: no slot at all");
    items.push(this.oddItem, this.noneItem);
    const bar = h("i", { class: "sample bar" }, h("i", { class: "alloced" }), h("i", { class: "verified" }));
    bar.lastChild.style.transform = "scaleX(0.5)";
    items.push(h("span", { class: "wide" }, bar, "bar: verified within alloced, of all the row's positions"));
    const marks = h("span", { class: "marks" }, "time line: ");
    marks.append(tick("tall"), "rows change hands; ", tick("tall dashed"), "given back; ");
    marks.append(tick("tall thick"), "refused, or a late write; ", tick("short"), "anything else");
    return h("p", { class: "legend" }, ...items, ...(this.question ? [] : [marks]));
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
      this.drawFree();
      this.grid.draw(this.shown === null ? Array.from({ length: tape.rows }, (_, row) => row) : tape.touched);
      tape.touched.clear();
      this.explain([...tape.odd.values()]);
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

  /** The legend's items on odd slots come when there is one, for all players of the group, and stay. */
  explain(odd) {
    for (const { oddItem, noneItem } of odd.length ? this.head.players : []) {
      if (odd.some((one) => one >= 0)) oddItem.hidden = false;
      if (odd.some((one) => one < 0)) noneItem.hidden = false;
    }
  }

  sentence(k) {
    const { kind, text } = this.tape.caption(k);
    const steps = this.question ? "" : ` of ${this.tape.last}`; // a question does not tell how many follow
    return [h("span", { class: "count" }, `step ${k}${steps}`), " ", h("strong", {}, kind), `: ${text}`];
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
    this.markFree(found.places);
    for (const name of ["title", "aria-label"]) set(this.differs, name, null);
    const { cells, lengths, owners, places, stale } = found;
    if (!cells.size && !lengths.size && !owners.size && !places.size) {
      const but = stale ? `, but for ${plural(stale, "stale cell")}` : "";
      return setText(this.differs, `the table is the same as the other player's${but}`);
    }
    const of = (what, rows) => rows.size && `${what} of ${ranges("row", [...rows])}`;
    const where = [places.size && "free rows", of("owners", owners), cells.size && tape.where(cells), of("lengths", lengths)];
    for (const name of ["title", "aria-label"]) set(this.differs, name, `unlike the other player: ${where.filter(Boolean).join(", ")}`);
    this.differs.replaceChildren(h("i", { class: "sample unlike" }), this.unlike(places.size, owners.size, cells.size, lengths.size));
  }

  /** How much differs; without numbers, all that can: as long as it gets. */
  unlike(places = 1, owners = this.tape.rows, cells = this.tape.rows * this.tape.columns, lengths = this.tape.rows) {
    const counts = [owners && plural(owners, "owner"), cells && plural(cells, "cell"), lengths && plural(lengths, "length")];
    return `unlike the other player: ${[places && "free rows", ...counts].filter(Boolean).join(", ")}`;
  }

  /** The corner mark on the free rows whose place in the queue has another row there; on "none", if there is any. */
  markFree(places) {
    const chips = this.free.querySelectorAll(".chip, .none");
    chips.forEach((chip, i) => set(chip, "data-differs", places.has(i) ? "" : null));
  }

  drawFree() {
    this.free.replaceChildren(...this.freeLine(this.tape.free, this.tape.event?.free?.[2]));
  }

  freeLine(free, fresh = []) {
    const chip = (row) => h("span", { class: fresh.includes(row) ? "chip now" : "chip" }, String(row));
    const rest = free.length > MAX_FREE ? [`\u2026 and ${count(free.length - MAX_FREE)} more`] : free.length ? [] : [h("span", { class: "none" }, "none")];
    return [`free rows (${this.tape.reuse}), next first: `, ...free.slice(0, MAX_FREE).flatMap((row) => [chip(row), " "]), ...rest];
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
      setText(this.detail, tape.describe(row, position) + tape.oddity(row, position));
      this.strip.light(inCell);
      return this.grid.light([row * tape.columns + position]);
    }
    const cells = tape.holders(slot);
    setText(this.detail, slot ? this.slotWords(slot, cells) : this.dummyWords(cells));
    this.strip.light([slot]);
    this.grid.light(cells);
  }

  slotWords(slot, cells) {
    const name = (flat) => this.tape.describe(...this.tape.at(flat)).replace(/ \u2192 slot \d+/, "");
    const more = cells.length > 4 ? `; and ${cells.length - 4} more` : "";
    return cells.length ? `slot ${slot} \u2190 ${cells.slice(0, 4).map(name).join("; ")}${more}` : `slot ${slot}: in no cell`;
  }

  /** Slot 0 is not row 0, but row 0's cells say it; no live cell should. */
  dummyWords(cells) {
    const { tape } = this;
    const padding = cells.filter((flat) => tape.at(flat)[0] === tape.paddingRow);
    const live = cells.filter((flat) => tape.at(flat)[0] !== tape.paddingRow);
    const which = padding.length === tape.columns ? (padding.length === 1 ? "its cell" : "all its cells") : `${padding.length} of its cells`;
    const said = padding.length ? [`row ${tape.paddingRow} (padding row), ${which}`] : [];
    if (live.length) said.push(`a fault, live: ${tape.where(live, true)}`);
    return said.length ? `slot 0, the dummy slot \u2190 ${said.join("; ")}` : "slot 0, the dummy slot: in no cell";
  }

  /** Nothing is pointed at: back to the focused cell, if there is one. */
  settle() {
    if (!this.tape) return;
    const cell = document.activeElement?.closest?.("[data-position]");
    if (cell && this.root.contains(cell)) return this.show((this.pointed = place(cell)));
    this.pointed = null;
    this.strip.light([]);
    this.grid.light([]);
    setText(this.detail, `Point at a cell or a slot${this.question ? "" : ", or press Enter in the table,"} to see which is which.`);
  }

  /** A mouse does not go into the table: after a click on a cell the arrow keys still step, and Enter begins there. */
  press(event) {
    const cell = event.target.closest("[data-position]");
    if (!cell || !this.tape) return;
    this.cursor = place(cell);
    this.grid.element.focus({ preventScroll: true });
    event.preventDefault();
  }

  /** The answer to a question, by mouse; the arrow keys go on from there. */
  choose(event) {
    const cell = this.question && event.target.closest(".cell");
    if (!cell) return;
    this.question.pick(place(cell));
    this.enter(place(cell));
  }

  /** Keys that mean nothing here are JupyterLab's (Shift+Enter, Ctrl+S): the mark that keeps it off is away while they pass. */
  letThrough(event) {
    this.quiet();
    if (!this.root.contains(event.target) || this.meaning(event)) return;
    for (let at = event.target; at !== this.root.parentElement; at = at.parentElement) if (at.hasAttribute(QUIET)) this.loud.push(at);
    for (const element of this.loud) element.removeAttribute(QUIET);
    setTimeout(() => this.quiet());
  }

  quiet() {
    for (const element of this.loud.splice(0)) element.setAttribute(QUIET, "true");
  }

  key(event) {
    const act = this.meaning(event);
    if (!act) return;
    event.stopPropagation();
    if (act === BROWSERS) return;
    event.preventDefault();
    act();
  }

  /** What a key does here; nothing: it is somebody else's. */
  meaning({ key, target, ctrlKey, altKey, metaKey, shiftKey }) {
    if (ctrlKey || altKey || metaKey || !this.tape) return;
    if (key === "Tab") return BROWSERS;
    if (shiftKey) return target === this.scrubber && /^(Arrow|Page|Home|End)/.test(key) ? BROWSERS : undefined;
    const cell = target.closest("[data-position]");
    if (cell && this.question && (key === "Enter" || key === " ")) return () => this.question.pick(place(cell));
    if (cell) return this.meaningInTable(key, place(cell));
    if (this.question && target === this.grid.element && /^Arrow/.test(key)) return () => this.enter(this.cursor ?? { row: 0, position: 0 });
    if (target.closest("button") && (key === " " || key === "Enter")) return BROWSERS; // it clicks
    if (key === "Enter") return () => this.enter(this.cursor ?? { row: 0, position: 0 });
    if (key === "Escape") return this.notebook() && (() => this.notebook().focus());
    return this.meaningAnywhere(key);
  }

  meaningAnywhere(key) {
    const { head, tape } = this;
    if (this.question) return /^(Arrow|Page|Home|End)/.test(key) ? BROWSERS : undefined;
    const to = { ArrowLeft: tape.step - 1, ArrowRight: tape.step + 1, Home: 0, End: head.last }[key];
    if (to !== undefined) return () => head.move(to);
    if (key === " ") return () => head.play();
    if (["ArrowUp", "ArrowDown", "PageUp", "PageDown"].includes(key)) return BROWSERS; // they scroll, or move the slider
  }

  /** Enter went into the table; arrows move from cell to cell in there, Escape leaves. */
  meaningInTable(key, { row, position }) {
    const to = {
      ArrowLeft: [row, position - 1],
      ArrowRight: [row, position + 1],
      ArrowUp: [row - 1, position],
      ArrowDown: [row + 1, position],
      Home: [row, 0],
      End: [row, this.tape.columns - 1],
      Enter: [row, position],
    }[key];
    if (to) return () => this.enter({ row: to[0], position: to[1] });
    return key === "Escape" ? () => this.grid.element.focus() : this.meaningAnywhere(key);
  }

  /** Where the focus goes on Escape, if this stands in a notebook. */
  notebook() {
    return this.root.closest(".jp-Cell") ?? this.root.closest(".jp-Notebook");
  }

  enter({ row, position }) {
    this.cursor = { row: clamp(row, 0, this.tape.rows - 1), position: clamp(position, 0, this.tape.columns - 1) };
    const cell = this.grid.cell(this.cursor.row, this.cursor.position);
    if (!cell) return false;
    cell.focus({ preventScroll: true });
    this.grid.reveal([this.cursor.row], [this.cursor.position]);
    return true;
  }

  /** As on a new width: in larger type there are fewer pixels. */
  resize() {
    this.width = null;
    this.layout();
  }

  /** On a new width, and when an element that was made before it was shown gets one at last. */
  layout() {
    if (!this.tape) return;
    if (this.width === this.root.clientWidth) return this.lanes?.point(this.grid); // rows may have moved up or down
    this.width = this.root.clientWidth;
    this.theme();
    this.share();
    this.grid.layout();
    this.heights = this.room();
    const players = [...this.head.players];
    const stacked = this.stack(players);
    for (const one of players) {
      const together = stacked ? [one] : players; // those of a group keep their tables side by side
      for (const name of ["says", "differs", "free"])
        one[name].style.minHeight = `${Math.max(...together.map(({ heights }) => heights?.[name] ?? 0))}px`;
    }
    for (const { lanes, grid } of players) lanes?.point(grid); // last: the arrow ends where its row stands now
  }

  /** The width that is there, between labels and cells: without bars where only then all cells have room. */
  share() {
    const { root, grid, tape } = this;
    const left = this.width - EDGES - grid.leastWidth;
    const tight = this.width - EDGES <= NARROW || (left < HEAD + LENGTHS && left >= TIGHT_HEAD + TIGHT_LENGTHS);
    root.classList.toggle("tight", tight);
    const head = tight ? clamp(Math.min(48 + 8 * tape.longestName, left - TIGHT_LENGTHS), TIGHT_HEAD, HEAD) : HEAD;
    root.style.setProperty("--head", `${head}px`);
  }

  /** Do the players of a group stand one above the other? Then one legend, the last, is for all. It says what is in any. */
  stack(players) {
    const boxes = players.map((player) => [player, player.root.getBoundingClientRect()]).sort(([, a], [, b]) => a.top - b.top);
    const below = ([, a], [, b]) => Math.abs(a.left - b.left) < 2 && b.top >= a.bottom && b.top - a.bottom < NEAR * scaleOf(this.root);
    const wrong = players.some(({ wrongItem }) => !wrongItem.hidden);
    for (const { wrongItem } of players) wrongItem.hidden = !wrong;
    const stacked = boxes.length > 1 && boxes.slice(1).every((box, i) => below(boxes[i], box));
    boxes.forEach(([{ root }], i) => root.classList.toggle("followed", stacked && i < boxes.length - 1));
    return stacked;
  }

  /** What the longest sentences and the most free rows take at this width, so that the table stays where it is. */
  room() {
    const { tape } = this;
    const steps = this.question ? [tape.step] : [...tape.captions.keys()];
    const length = tape.captions.map((_, k) => Object.values(tape.caption(k)).join().length);
    const longest = steps.sort((a, b) => length[b] - length[a]).slice(0, 20);
    const ruler = h("div", { class: "ruler", "aria-hidden": "true" });
    ruler.append(...longest.map((k) => h("p", { class: "says" }, ...this.sentence(k))));
    ruler.append(h("p", { class: "differs" }, h("i", { class: "sample unlike" }), this.unlike()));
    ruler.append(h("p", { class: "free" }, ...this.freeLine(Array(this.question ? tape.free.length : tape.mostFree).fill(tape.rows - 1))));
    this.root.append(ruler);
    const scale = scaleOf(this.root);
    const heights = Array.from(ruler.children, (line) => Math.ceil(line.getBoundingClientRect().height / scale)); // offsetHeight rounds down
    ruler.remove();
    const [differs, free] = heights.splice(-2);
    return { differs, free, says: Math.max(...heights) };
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

/** Show a tape in an element of a page. Options: speed (steps a second), step, group (of players that move together),
 *  large (type), question (see question.js). */
export function mount(root, tape, { speed = 2, step = 0, group = "", large = false, question = null } = {}) {
  const head = Playhead.of(group, speed);
  head.lasts.set(root, Infinity); // until the tape is unpacked
  head.go(step);
  const player = new Player(root, head, root, { large: new LargeType(large), question: question && new Question(question) });
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
      const asked = () => ({ pick: model.get("pick"), picked: model.get("picked"), mark: model.get("mark") });
      const tell = (cell) => (model.set("picked", cell), model.save_changes()); // at once
      const question = model.get("question") ? new Question(asked(), tell) : null;
      const large = new LargeType(model.get("large"), (on) => (model.set("large", on), model.save_changes()));
      const hears = Object.fromEntries(["pick", "picked", "mark"].map((name) => [name, () => question?.update(asked())]));
      hears.large = () => large.set(model.get("large"));
      for (const [name, act] of Object.entries(hears)) model.on(`change:${name}`, act);
      const player = new Player(root, head, who, { large, question });
      const load = async () => {
        await player.load(model.get("tape"));
        if (model.get("playing")) head.play(true);
      };
      model.on("change:tape", load);
      load();
      return () => {
        model.off("change:tape", load);
        for (const [name, act] of Object.entries(hears)) model.off(`change:${name}`, act);
        player.destroy();
        root.remove();
      };
    },
  };
};
