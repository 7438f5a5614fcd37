// What a page of the course does besides its players, whose module stands above: theme, questions, scrolling, printing.
{
  const html = document.documentElement;
  const players = new Map(); // element -> what `mount` gave, and the step at which it is printed

  function mountAll(within) {
    for (const root of within.querySelectorAll("[data-tape]")) {
      const { tape, options } = root.dataset;
      root.removeAttribute("data-tape");
      root.replaceChildren();
      const { step, ...others } = JSON.parse(options);
      const printed = step || (others.question ? 0 : Infinity); // at its start a story is an empty table: then its end
      players.set(root, { printed, ...mount(root, tape, { step, ...others }) });
    }
  }

  // ---- theme: the system's, or the one that was chosen here ----

  const system = matchMedia("(prefers-color-scheme: dark)");
  const theme = document.getElementById("theme");
  const isDark = () => (html.hasAttribute("theme") ? html.getAttribute("theme") === "dark" : system.matches);
  const label = () => (theme.textContent = isDark() ? "Light theme" : "Dark theme");

  function choose(name) {
    html.setAttribute("theme", name);
    label();
    try {
      localStorage.setItem("reqpool:theme", name);
    } catch {
      // a page that may keep nothing: then until it is left
    }
  }

  theme.hidden = false;
  theme.addEventListener("click", () => choose(isDark() ? "light" : "dark"));
  system.addEventListener("change", label);
  label();

  // ---- questions: an answer counts once it is committed, and what opens then was not in sight before ----

  /** The table in which a cell is to be picked, if that is what is asked, and the cell that is right. */
  function tableOf(form) {
    const place = form.querySelector("[data-asks]");
    return place && { right: place.dataset.asks.split(",").map(Number), asks: players.get(place.firstElementChild).player.question };
  }

  function answerOf(form) {
    const table = tableOf(form);
    return table ? table.asks.state.picked.join(",") : form.querySelector(".ways input:checked")?.value;
  }

  function lock(form) {
    for (const input of form.querySelectorAll(".ways > label input")) input.disabled = true;
    const table = tableOf(form);
    table?.asks.update({ ...table.asks.state, pick: false, mark: table.right });
  }

  function commit(form) {
    if (form.hasAttribute("data-committed")) return; // the button stays enabled: a disabled one would lose the focus
    const answer = answerOf(form);
    const verdict = form.querySelector(`template[data-answer="${answer}"]`);
    const told = form.querySelector(".told");
    if (!verdict) return (told.textContent = `Choose ${tableOf(form) ? "a cell of the table" : "an answer"} first.`);
    lock(form);
    form.setAttribute("data-committed", answer);
    form.querySelector("button[type=submit]").textContent = "Committed";
    told.replaceChildren(verdict.content.cloneNode(true));
    const opened = form.querySelector("template[data-opened]");
    if (!opened) return;
    form.querySelector(".opened").replaceChildren(opened.content.cloneNode(true));
    mountAll(form);
  }

  for (const form of document.querySelectorAll("form.question")) {
    form.addEventListener("submit", (event) => (event.preventDefault(), commit(form)));
  }

  // ---- what scrolls sideways can be reached by keyboard, and only that ----

  const scrollers = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  const wide = "pre, .scrolls, .text [style*='overflow-x'], figure, p:has(> img), .text div:has(> svg)";
  for (const element of document.querySelectorAll(wide)) scrollers.observe(element);

  // ---- on paper: light, and each player at the step that the course shows ----

  let before = null;
  const steps = new Map(); // playhead -> where the reader had it

  addEventListener("beforeprint", () => {
    before = html.getAttribute("theme");
    html.setAttribute("theme", "light");
    for (const { head } of players.values()) steps.set(head, head.step);
    for (const { head, printed } of players.values()) (head.play(false), head.go(printed));
  });
  addEventListener("afterprint", () => {
    if (before === null) html.removeAttribute("theme");
    else html.setAttribute("theme", before);
    for (const [head, step] of steps) head.go(step);
  });

  mountAll(document);

  // ---- a page opened at one of its headings: players that are drawn above it would push it away ----

  let moved = performance.getEntriesByType("navigation")[0]?.type !== "navigate"; // else the reader is put back by the browser
  for (const name of ["wheel", "touchmove", "pointerdown", "keydown"]) addEventListener(name, () => (moved = true), { once: true, passive: true });
  const frame = () => new Promise(requestAnimationFrame);
  const drawn = Promise.all([...players.values()].map(({ ready }) => ready));
  drawn.then(frame).then(frame).then(() => moved || document.querySelector(":target")?.scrollIntoView());
}
