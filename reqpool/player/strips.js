// What stands above and below the table.

const MAX_SLOTS = 256;
const LANES = ["schedule", "forward"];
const TALL = new Set(["alloc", "free", "late_write", "refuse", "retract", "clear"]);

class SlotStrip {
  constructor(tape) {
    this.tape = tape;
    this.chips = [];
    this.element = h("div", { class: "slots", role: "group", "aria-label": "KV slots" }, h("span", { class: "label" }, "KV slots"));
    if (tape.slots > MAX_SLOTS) this.element.append(h("span", { class: "muted" }, `${count(tape.slots)} of them, too many to draw here`));
    else this.chips = Array.from({ length: tape.slots }, (_, slot) => h("span", { class: "slot", "data-kv-slot": slot }, String(slot)));
    this.chips[0]?.classList.add("dummy");
    this.element.append(...this.chips);
    this.element.hidden = !tape.slots;
    this.shown = [];
    this.now = [];
    this.lit = [];
  }

  draw() {
    const { tape, chips } = this;
    if (!chips.length) return;
    const holders = chips.map(() => []); // the row of each live cell that holds the slot
    for (let row = 0; row < tape.rows; row++)
      if (row !== tape.paddingRow)
        for (let p = Math.min(tape.alloced[row], tape.columns) - 1; p >= 0; p--) holders[tape.slot(row, p)]?.push(row);
    holders.forEach((held, slot) => {
      const owner = held.length && slot ? tape.owner(held[0]) : NEUTRAL;
      const looks = `${held.length} ${owner.hue} ${owner.sign}`;
      if (this.shown[slot] === looks) return;
      this.shown[slot] = looks;
      paintOwner(chips[slot], owner);
      chips[slot].classList.toggle("held", held.length > 0 && slot > 0);
      set(chips[slot], "data-odd", oddMark(slot ? (held.length > 1 ? held.length : undefined) : held.length ? 0 : undefined));
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

/** One such mark, for the legend. */
const tick = (looks) => h("i", { class: `mark ${looks}` });

/** Whoever wrote late, it was the forward lane. */
const laneOf = (event) => event?.lane ?? (event?.kind === "late_write" ? "forward" : null);

class Lanes {
  constructor(tape, line) {
    this.tape = tape;
    this.tracks = LANES.map((lane) => {
      const steps = tape.events.flatMap((event, i) => (laneOf(event) === lane ? [i + 1] : []));
      const [veil, here] = [h("i", { class: "veil" }), h("i", { class: "here" })];
      const element = h("div", { class: "track", role: "img", "data-lane": lane, "data-events": steps.length });
      element.append(ticks(tape, (event) => laneOf(event) === lane), veil, here);
      return { lane, steps, element, veil, here };
    });
    [this.shaft, this.heads] = [svg("path", { class: "shaft" }), svg("path", { class: "heads" })];
    this.arrow = svg("svg", { class: "arrow", "aria-hidden": "true" });
    this.arrow.append(this.shaft, this.heads);
    const label = (words) => h("span", { class: "label" }, words);
    this.element = h("div", { class: "lanes" }, label("time"), line);
    for (const { lane, element } of this.tracks) this.element.append(label(`${lane} lane`), element);
  }

  draw() {
    const { tape } = this;
    const at = `${(100 * tape.step) / Math.max(tape.last, 1)}%`;
    const now = laneOf(tape.event);
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

  /** From its lane, round the table's left edge, into each row: it covers no number. Reads the layout. */
  point(grid) {
    const { hit, event } = this.tape;
    if (!hit.length) return;
    const { here } = this.tracks[LANES.indexOf(laneOf(event))];
    const [box, from] = [this.arrow, here].map((element) => element.getBoundingClientRect());
    const scale = scaleOf(this.element);
    const [x, y] = [(from.left + from.width / 2 - box.left) / scale, (from.bottom - box.top) / scale];
    const bend = grid.element.offsetTop - 5;
    const into = hit.slice(0, 8).map((row) => grid.middleOf(row));
    set(this.shaft, "d", `M${x} ${y}V${bend}H7${into.map((row) => `M7 ${bend}V${row}H12`).join("")}`);
    set(this.heads, "d", into.map((row) => `M11 ${row - 5}L19 ${row}L11 ${row + 5}Z`).join(""));
  }
}
