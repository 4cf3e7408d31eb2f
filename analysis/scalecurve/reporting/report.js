"use strict";
// What the page offers beside reading: hints, hiding curves, linear axes, sorting, and printing everything.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const add = (parent, tag, text) => {
    const made = document.createElement(tag);
    made.textContent = text;
    parent.append(made);
    return made;
  };

  const hint = add(document.body, "div", "");
  hint.className = "hint";
  hint.hidden = true;
  for (const mark of all(".tip")) {
    const title = mark.querySelector("title");
    const text = title.textContent;
    title.remove();
    mark.setAttribute("aria-label", text);
    const show = (event) => {
      const box = mark.getBoundingClientRect();
      hint.classList.remove("pinned");
      hint.textContent = text;
      hint.hidden = false;
      hint.style.left = `${Math.max(4, Math.min(box.x, innerWidth - hint.offsetWidth - 8))}px`;
      hint.style.top = `${Math.max(4, box.y - hint.offsetHeight - 6)}px`;
      event.stopPropagation();
    };
    mark.addEventListener("pointerenter", show);
    mark.addEventListener("click", (event) => {
      show(event);
      if (!mark.dataset.trials) return;
      hint.classList.add("pinned");
      add(hint, "a", "record and logs").href = `#${mark.dataset.trials}`;
    });
    mark.addEventListener("pointerleave", () => { hint.hidden = !hint.classList.contains("pinned"); });
  }

  addEventListener("click", () => { hint.hidden = true; });

  for (const figure of all("figure")) {
    const controls = document.createElement("div");
    controls.className = "controls";
    if (figure.classList.contains("has-linear")) {
      const button = add(controls, "button", "show linear axis");
      button.className = "scale";
      button.addEventListener("click", () => {
        button.textContent = figure.classList.toggle("as-linear") ? "show log axis" : "show linear axis";
      });
    }
    JSON.parse(figure.dataset.curves).forEach((label, index) => {
      const button = add(controls, "button", label);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        for (const mark of all(`[id*="-curve-${index}-"]`, figure)) mark.style.display = shown ? "" : "none";
      });
    });
    if (controls.children.length) figure.prepend(controls);
  }

  const value = (row, index) => row.cells[index]?.firstChild?.textContent.trim() ?? "";
  const amount = (text) => parseFloat(text.replaceAll(",", ""));
  for (const table of all("table.sortable")) {
    all("th", table).forEach((heading, index) => {
      const button = document.createElement("button");
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        all("th", table).forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = all("tbody tr", table).filter((row) => row.cells.length > 1);
        const compare = (a, b) => {
          const [left, right] = [value(a, index), value(b, index)];
          const [x, y] = [amount(left), amount(right)];
          if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
          const order = Number.isNaN(x) ? left.localeCompare(right) : x - y;
          return down ? -order : order;
        };
        table.tBodies[0].append(...rows.sort(compare));
      });
    });
  }

  const folds = all("details.question");
  const open = () => {
    const target = document.getElementById(location.hash.slice(1));
    target?.closest("details")?.setAttribute("open", "");
    target?.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = folds.filter((fold) => !fold.open);
    closed.forEach((fold) => { fold.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((fold) => { fold.open = false; }));
})();
