// What pages do with scripts, in addition to what htmx does: titles of drawings at once, the search palette (Ctrl-K).
"use strict";
(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "presentation");
  document.body.append(tip);
  document.addEventListener("pointermove", (event) => {
    const part = event.target.closest?.("svg [data-tip], svg :has(> title)");
    tip.hidden = !part;
    if (!part) return;
    const title = part.querySelector(":scope > title");
    if (title) {
      // The browser would show it too, a second later.
      part.dataset.tip = title.textContent;
      part.setAttribute("aria-label", title.textContent);
      title.remove();
    }
    tip.textContent = part.dataset.tip;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 12, innerWidth - box.width - 8))}px`;
    tip.style.top = `${event.clientY + 20 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 20}px`;
  });
})();
(() => {
  const seek = document.querySelector("a.seek");
  if (!seek || !window.HTMLDialogElement) return;
  let dialog, field, list, chosen = -1;

  const made = (name, attributes, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };

  function build() {
    field = made("input", {
      name: "q", type: "search", maxlength: 200, autocomplete: "off", placeholder: "Search owners, sessions, facts, turns",
      "aria-label": "Search", "hx-get": "/search", "hx-trigger": "input changed delay:150ms, search", "hx-select": "#hits > *",
      "hx-target": "#palette-hits", "hx-sync": "this:replace",
    });
    list = made("div", { id: "palette-hits", class: "hits scroll", "aria-live": "polite" });
    const foot = made("p", { class: "foot" }, "↑ ↓ to choose", made("span", {}, "Enter to open"), made("span", {}, "Esc to close"));
    dialog = made("dialog", { class: "palette", "aria-label": "Search" },
      made("form", { action: "/search", method: "get" }, field), list, foot);
    document.body.append(dialog);
    htmx.process(dialog);
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("keydown", keys);
    list.addEventListener("htmx:afterSwap", () => choose(0));
  }

  function choose(number) {
    const links = list.querySelectorAll("a");
    chosen = links.length ? (number + links.length) % links.length : -1;
    links.forEach((link, place) => link.toggleAttribute("data-chosen", place === chosen));
    links[chosen]?.scrollIntoView({ block: "nearest" });
  }

  function keys(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const link = list.querySelectorAll("a")[chosen];
    if (step) choose(chosen + step);
    else if (event.key === "Enter" && link) link.click();
    else return;
    event.preventDefault();
  }

  function open() {
    if (!dialog) build();
    if (dialog.open) return;
    dialog.showModal();
    field.select();
    if (!list.children.length) htmx.trigger(field, "search");
  }

  seek.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select");
    const wanted = event.key?.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
    if (!wanted && (event.key !== "/" || typing)) return;
    event.preventDefault();
    open();
  });
})();
