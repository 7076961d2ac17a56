// Everything works without this file; it fills in what takes a moment, and lets the keyboard move.
"use strict";

async function load(place) {
  const answer = await fetch(place.dataset.load, { headers: { Accept: "text/html" } });
  if (answer.ok) place.outerHTML = await answer.text();
}

// What is out of sight is not asked for.
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    load(entry.target);
  }
});
document.querySelectorAll("[data-load]").forEach((place) => seen.observe(place));

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  const field = document.querySelector("input[type=search], textarea, input[name=where]");
  const link = { ArrowLeft: "a[rel=prev]", ArrowRight: "a[rel=next]" }[event.key];
  if (event.key === "/" && field) field.focus();
  else if (link && document.querySelector(link)) document.querySelector(link).click();
  else return;
  event.preventDefault();
});
