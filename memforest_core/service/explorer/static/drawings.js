"use strict";
// The pages work without this: dragging over a strip chooses days that its form also takes.
document.querySelectorAll(".strip").forEach((strip) => {
  const form = strip.closest("form"), shade = strip.querySelector(".window");
  const from = Number(strip.dataset.from), to = Number(strip.dataset.to);
  const at = (event) => {
    const box = strip.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const day = (share) => new Date((from + share * (to - from)) * 1000).toISOString().slice(0, 10);
  let begun = null;
  const ends = (event) => [Math.min(begun, at(event)), Math.max(begun, at(event))];
  strip.classList.add("drags");
  strip.addEventListener("pointerdown", (event) => { begun = at(event); strip.setPointerCapture(event.pointerId); });
  strip.addEventListener("pointermove", (event) => {
    if (begun === null) return;
    const [left, right] = ends(event);
    shade.setAttribute("x", 100 * left);
    shade.setAttribute("width", 100 * (right - left));
  });
  strip.addEventListener("pointercancel", () => { begun = null; });
  strip.addEventListener("pointerup", (event) => {
    const [left, right] = ends(event);
    begun = null;
    if (right - left < 0.01) return;
    form.elements.since.value = day(left);
    form.elements.until.value = day(right);
    form.submit();
  });
});

// The graph: who is near lights up, Ctrl and the wheel zoom, and dragging moves.
document.querySelectorAll(".net").forEach((net) => {
  const links = [...net.querySelectorAll(".link")], entities = [...net.querySelectorAll(".entity")];
  const light = (id) => {
    const near = new Set([id]);
    links.forEach((link) => {
      const ends = link.dataset.ends.split(" "), on = ends.includes(id);
      link.classList.toggle("on", on);
      if (on) ends.forEach((end) => near.add(end));
    });
    entities.forEach((each) => each.classList.toggle("on", near.has(each.dataset.id)));
    net.classList.toggle("near", Boolean(id));
  };
  entities.forEach((each) => {
    for (const name of ["pointerenter", "focus"]) each.addEventListener(name, () => light(each.dataset.id));
    for (const name of ["pointerleave", "blur"]) each.addEventListener(name, () => light(""));
  });
  if (!window.d3) return;
  const moves = d3.select(net).select(".moves");
  const zoom = d3.zoom().scaleExtent([0.7, 6]).on("zoom", (event) => moves.attr("transform", event.transform));
  // A wheel alone and one finger scroll the page.
  const meant = (event) => (event.type !== "wheel" || event.ctrlKey) && (!event.touches || event.touches.length > 1);
  d3.select(net).call(zoom.filter(meant)).style("touch-action", "pan-x pan-y");
});
