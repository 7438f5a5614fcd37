// Which cell? The learner picks one; afterwards the kernel locks the pick and marks the cell where it happens.

const SAID = { picked: "your cell", mark: "it happens here" };

class Question {
  /** `state`: { pick: whether it is open, picked and mark: [row, position] or [] }. `tell` hears of a new pick. */
  constructor(state, tell = (picked) => this.update({ ...this.state, picked })) {
    this.state = state;
    this.tell = tell;
    this.line = h("p", { class: "answer", role: "status" });
    const sign = (name, word) => h("span", { class: `sign ${name}`, "aria-hidden": "true" }, h("b", {}, word));
    this.signs = { picked: sign("picked", "you"), mark: sign("outcome", "here") };
  }

  update(state) {
    this.state = state;
    if (this.grid) this.draw();
  }

  pick({ row, position }) {
    if (this.state.pick) this.tell([row, position]);
  }

  /** The grid's cells, from now on, can be picked. */
  show(root, grid) {
    Object.assign(this, { root, grid });
    this.draw();
  }

  draw() {
    const { root, grid, signs, state } = this;
    const { columns } = grid.tape;
    const at = Object.fromEntries(Object.keys(SAID).map((name) => [name, state[name].length ? state[name][0] * columns + state[name][1] : -1]));
    set(root, "data-pick", state.pick ? "open" : "locked");
    grid.cells.forEach((cell, flat) => {
      const words = Object.keys(SAID).filter((name) => at[name] === flat);
      for (const name of Object.keys(SAID)) set(cell, `data-${name}`, words.includes(name) ? "" : null);
      set(cell, "aria-selected", flat === at.picked);
      cell.signs = words.map((name) => SAID[name]);
      grid.fillCell(cell, ...grid.at(flat), true);
    });
    for (const name of Object.keys(SAID)) {
      signs[name].remove();
      if (at[name] < 0) continue;
      const [row, position] = state[name];
      signs[name].style.left = `calc(100% / var(--columns) * ${position})`;
      grid.views[row].cells.append(signs[name]);
    }
    setText(this.line, this.sentence(at));
  }

  sentence(at) {
    const { pick, picked, mark } = this.state;
    const said = (name, [row, position]) => `${SAID[name]}: row ${row}, position ${position}`;
    const words = [picked.length ? said("picked", picked) : pick ? "Click a cell, or go to it with the arrow keys and press Enter" : "no cell was picked"];
    if (mark.length) words.push(said("mark", mark) + (at.mark === at.picked ? ", in your cell" : ""));
    return words.join("; ") + (picked.length && pick ? " (another one moves it)" : "");
  }
}
