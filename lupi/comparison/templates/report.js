"use strict";
// Sorting: each heading of a table with numbers becomes a button. Without this script the table is as it was written.
const value = (row, k) => {
  const cell = row.cells[k], number = cell.dataset.value;
  return number === undefined ? cell.textContent.trim() : number === "" ? NaN : Number(number);
};
const order = (a, b) => {
  if (typeof a === "string") return a.localeCompare(b);
  if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b);
  return a - b;
};
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0], written = [...body.rows];
  heads.forEach((head, k) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const next = { none: "descending", descending: "ascending", ascending: "none" }[head.ariaSort || "none"];
      heads.forEach(other => other.removeAttribute("aria-sort"));
      if (next !== "none") head.setAttribute("aria-sort", next);
      const sign = next === "descending" ? -1 : 1;
      const empty = row => { const v = value(row, k); return typeof v === "number" && isNaN(v); };
      const rows = next === "none" ? written : [...written].sort(
        (a, b) => (empty(a) || empty(b) ? 1 : sign) * order(value(a, k), value(b, k)));
      body.append(...rows);
    });
  });
}
// One box for all explanations: what stands in `title` is also shown at once, for the keyboard and for fingers.
const tip = document.getElementById("tip");
for (const element of document.querySelectorAll("[title]")) {
  const text = element.title, target = element.querySelector("button") || element;
  element.removeAttribute("title");
  target.setAttribute("aria-description", text);
  const show = () => {
    tip.textContent = text;
    tip.hidden = false;
    const box = target.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${box.bottom + 6 + tip.offsetHeight > innerHeight ? box.top - tip.offsetHeight - 6 : box.bottom + 6}px`;
  };
  const hide = () => { tip.hidden = true; };
  target.addEventListener("mouseenter", show);
  target.addEventListener("focus", show);
  target.addEventListener("mouseleave", hide);
  target.addEventListener("blur", hide);
}
document.addEventListener("keydown", event => { if (event.key === "Escape") tip.hidden = true; });
// Paper shows what is folded, too.
addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
