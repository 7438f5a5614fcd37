// One view of a tape, and the two ways to get it in front of somebody.

const MAX_QUEUE = 12;
const REST_MS = 300; // the kernel hears of a step when it has been at rest for so long

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
    on("mousedown", (event) => this.press(event));
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
    this.differs.replaceChildren(h("i", { class: "sample unlike" }), short);
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

  /** A mouse does not go into the table: after a click on a cell the arrow keys still step, and Enter begins there. */
  press(event) {
    const cell = event.target.closest("[data-position]");
    if (!cell || !this.tape) return;
    this.cursor = place(cell);
    this.grid.element.focus({ preventScroll: true });
    event.preventDefault();
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
