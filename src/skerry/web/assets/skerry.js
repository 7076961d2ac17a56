// Everything works without this file; it fills in what takes a moment, and lets the keyboard move.
"use strict";

async function load(place) {
  const part = document.createElement("template");
  try {
    const answer = await fetch(place.dataset.load, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.statusText);
    part.innerHTML = await answer.text();
  } catch {
    place.replaceChildren("could not be loaded");
    delete place.dataset.load;
    return;
  }
  await_sight(part.content);
  place.replaceWith(part.content);
}

// What is out of sight is not asked for.
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    load(entry.target);
  }
});
function await_sight(where) {
  where.querySelectorAll("[data-load]").forEach((place) => seen.observe(place));
}
await_sight(document);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  const field = document.querySelector("input[type=search], textarea, input[name=where]");
  const link = { ArrowLeft: "a[rel=prev]", ArrowRight: "a[rel=next]" }[event.key];
  if (event.key === "/" && field) field.focus();
  else if (link && document.querySelector(link)) document.querySelector(link).click();
  else return;
  event.preventDefault();
});
