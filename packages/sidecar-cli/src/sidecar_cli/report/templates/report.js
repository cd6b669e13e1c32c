
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const value = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        const order = x !== "" && y !== "" && !isNaN(x) && !isNaN(y) ? x - y : x.localeCompare(y);
        return descending ? -order : order;
      });
      body.append(...rows);
    });
  });
}
const field = document.getElementById("filter");
if (field) {
  const cards = [...document.querySelectorAll("[data-name]")];
  const groups = [...document.querySelectorAll(".group")];
  const said = document.getElementById("filter-count");
  field.closest(".filter").hidden = false;
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLowerCase();
    for (const card of cards) card.hidden = !card.dataset.name.toLowerCase().includes(wanted);
    for (const group of groups) group.hidden = !group.querySelector("[data-name]:not([hidden])");
    const left = cards.filter((card) => !card.hidden).length;
    said.textContent = wanted ? `${left} of ${cards.length}` : "";
  });
}
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
});
