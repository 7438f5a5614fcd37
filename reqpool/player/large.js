// Large type, for a projector: its button sets it for all players of the page, and the browser remembers it.

const REMEMBERED = "reqpool:large-type";
const switches = (globalThis[Symbol.for("reqpool.large")] ??= new Set()); // every widget loads this module anew

function remembered() {
  try {
    return localStorage.getItem(REMEMBERED) === "on";
  } catch {
    return false; // a page that may keep nothing
  }
}

function switchAll(on) {
  try {
    if (on) localStorage.setItem(REMEMBERED, "on");
    else localStorage.removeItem(REMEMBERED);
  } catch {
    // then until the page is left
  }
  for (const one of switches) one.set(on);
}

class LargeType {
  /** `tell` hears when it is not as it was asked for. */
  constructor(on, tell = () => {}) {
    this.tell = tell;
    this.button = h("button", { type: "button", class: "larger" }, "Large type");
    this.button.addEventListener("click", () => switchAll(!this.on));
    this.on = on || remembered();
    if (this.on !== on) tell(this.on);
    this.elsewhere = ({ key }) => key === REMEMBERED && this.set(remembered()); // another frame, another tab
    window.addEventListener("storage", this.elsewhere);
    switches.add(this);
  }

  show(root, changed) {
    Object.assign(this, { root, changed });
    this.draw();
  }

  draw() {
    this.root.classList.toggle("large", this.on);
    set(this.button, "aria-pressed", this.on);
    this.changed();
  }

  set(on) {
    if (on === this.on) return;
    this.on = on;
    this.draw();
    this.tell(on);
  }

  destroy() {
    switches.delete(this);
    window.removeEventListener("storage", this.elsewhere);
  }
}

/** How many pixels of the window one of the element's own pixels takes. */
const scaleOf = (element) => element.getBoundingClientRect().width / element.offsetWidth || 1;
