// Columns of one field of a record.

import { number } from "./words.js";

// A column: `show(value, row)` makes the cell, and the file has the value as it is. Numbers stand at the right.
export const column = (name, field, show = (value) => value ?? "–") =>
    ({ name, kind: show === number ? "number" : undefined, cell: (row) => show(row[field], row), csv: (row) => row[field] });
