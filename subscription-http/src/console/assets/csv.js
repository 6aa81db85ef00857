// Lists as files (RFC 4180).

import { el } from "./el.js";

// A cell. Spreadsheets run a text that begins like a formula, so it gets a `'`; numbers do not.
export function cell(value) {
    let text = String(value ?? "");
    if (/^[\s\u200b]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text)) text = `'${text}`;
    return /[",;\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// Lets the browser save a file.
export function save(name, rows) {
    const text = rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
    const url = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv;charset=utf-8" }));
    el("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
