// Tables of the site sort at a press of a column's head.
const value = cell => {
  const found = cell.textContent.replace(/,/g, "").replace("−", "-").match(/^[<>+]?\s*(-?[\d.]+)/);
  return found ? Number(found[1]) : cell.textContent;
};
const order = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 8) continue;
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    if (!head.textContent.trim()) return;
    head.tabIndex = 0;
    head.style.cursor = "pointer";
    head.title = "Sort";
    const sort = () => {
      const falls = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      body.append(...[...body.rows].sort((a, b) => (falls ? -1 : 1) * order(value(a.cells[i]), value(b.cells[i]))));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
  });
}
