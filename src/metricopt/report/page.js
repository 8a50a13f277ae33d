"use strict";
// Sorts a table by the column whose head is clicked; a second click turns the order round. The page is whole without it.
document.querySelectorAll("table").forEach((table) => {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === "number") return -1;
    if (typeof b === "number") return 1;
    return a.localeCompare(b, undefined, { numeric: true });
  };
  heads.forEach((head, column) => {
    head.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const rows = [...body.rows].sort((a, b) => (down ? -1 : 1) * compare(key(a, column), key(b, column)));
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...rows);
    });
  });
});
