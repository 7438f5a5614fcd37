// What a page of the course does besides its players, whose module stands above: theme, questions, scrolling, printing.
{
  const html = document.documentElement;
  const players = new Map(); // element -> what `mount` gave, and the step that it began with

  function mountAll(within) {
    for (const root of within.querySelectorAll("[data-tape]")) {
      const { tape, options } = root.dataset;
      root.removeAttribute("data-tape");
      root.replaceChildren();
      const { step, ...others } = JSON.parse(options);
      players.set(root, { step, ...mount(root, tape, { step, ...others }) });
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
  addEventListener("beforeprint", () => {
    before = html.getAttribute("theme");
    html.setAttribute("theme", "light");
    for (const { head, step } of players.values()) (head.play(false), head.go(step));
  });
  addEventListener("afterprint", () => (before === null ? html.removeAttribute("theme") : html.setAttribute("theme", before)));

  mountAll(document);
}
