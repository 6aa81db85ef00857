// Tables and lists: columns from data, pages by cursor, filters in the address, CSV.

import { get, go, href, pages, params } from "./api.js";
import { block, boxes, button, el, failure, form, id, labelled, link, note, number, replace, select, submit } from "./el.js";

// The column of a field. `show(value, row)` makes its cells; without `show` the column is only in the CSV file. Numbers are aligned to the right.
export const column = (name, field, show, kind = show === number ? "number" : null) =>
    ({ name, kind, cell: show && ((row) => show(row[field], row)), csv: (row) => row[field] });

export const plain = (value) => value ?? "–";

// A table. A column has a `name`, `cell(row, context)` for the page and `csv(row, context)` for the file, or one of them.
// The roles stay when a narrow screen shows each row as a card.
export function table(caption, all, rows, context) {
    const columns = all.filter(({ cell }) => cell);
    const head = ({ name, kind }) => el("th", { role: "columnheader", scope: "col", class: kind }, name);
    const body = (row) => ({ name, kind, cell }) => el("td", { role: "cell", "data-label": name, class: kind }, el("div", {}, cell(row, context)));
    return el("table", { role: "table" },
        el("caption", {}, caption),
        el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, columns.map(head))),
        el("tbody", { role: "rowgroup" }, rows.map((row) => el("tr", { role: "row" }, columns.map(body(row))))));
}

// The address that *Older* led from, by the address that it led to, so that *Newer* leads back.
const left = new Map();

// A list of the API: one page of it, with *Older*, *Newer* and CSV. `join(rows, signal)` reads what the columns need besides.
export function listing(view, { path, query, scope, caption, columns, empty, file, join = async () => null }) {
    const filter = params(query);
    const cursor = view.query.get("cursor");
    const at = (cursor) => href(view.segments, [...[...view.query].filter(([name]) => name !== "cursor"), ["cursor", cursor]]);
    const load = async (signal) => {
        const page = await get(path, [...filter, ["limit", 50], ["cursor", cursor]], signal);
        return { page, context: await join(page.data, signal) };
    };
    const show = ({ page, context }) => {
        if (!page.data.length && !cursor && !page.next_cursor && !page.unreadable) return null;
        const newer = left.get(location.hash);
        const older = page.next_cursor && at(page.next_cursor);
        return [
            page.unreadable && note(`Left out, because the database has them in a form that cannot be read: ${page.unreadable.join(", ")}. The log of the server says why.`),
            page.data.length ? table(caption, columns, page.data, context) : note(page.next_cursor ? "Nothing fits in this part of the list." : "The list ends here."),
            el("nav", { class: "pager", "aria-label": `Pages of ${caption}` },
                cursor && el("a", { href: newer ?? at(), class: "button" }, newer ? "Newer" : "First page"),
                older && el("a", { href: older, class: "button", on: { click: () => left.set(older, location.hash) } }, "Older"),
                download(view, file, columns, (signal) => pages(path, filter, signal), join)),
        ];
    };
    // A link that was shared may hold a cursor or a filter that the API refuses.
    const wayOut = ({ status }) => status === 400 && link(href(view.segments), "Clear the filters");
    return block(view, { scope, load, show, empty, wayOut, name: caption.toLowerCase() });
}

// A button that saves all rows of a list. `source(signal)` gives the pages; the last line says if there were more.
export function download(view, file, all, source, join = async () => null) {
    const columns = all.filter(({ csv }) => csv);
    const told = el("span", { role: "status" });
    const run = async () => {
        const rows = [];
        let more = null;
        try {
            for await (const { data, next_cursor } of source(view.signal)) {
                const context = await join(data, view.signal);
                rows.push(...data.map((row) => columns.map(({ csv }) => csv(row, context))));
                more = next_cursor;
                told.textContent = `${rows.length} rows…`;
            }
        } catch (error) {
            if (!view.signal.aborted) replace(told, failure(error));
            return;
        }
        told.textContent = `${rows.length} rows saved.`;
        if (more) rows.push([`Only the first ${rows.length} rows: there are more.`]);
        save(`${file}.csv`, [columns.map(({ name }) => name), ...rows]);
    };
    return [button("CSV", run, { title: "Save this list as a file" }), told];
}

// A button that saves rows that are on the page already.
export const saveRows = (file, rows) => button("CSV", () => save(`${file}.csv`, rows()), { title: "Save these numbers as a file" });

// A form of filters over the address. A field has a `name`, a `label` and a `kind`: `select` and `checks` with `options`,
// `date`, `search` or `text`; `attributes` are more of its control.
export function filters(view, fields) {
    const control = ({ name, label, kind, options, any = "all", attributes }) => {
        const chosen = view.query.getAll(name);
        if (kind === "checks") return boxes(label, "checkbox", name, options, chosen);
        const [value = ""] = chosen;
        const own = { id: `filter-${name}`, ...attributes };
        return labelled(label, kind === "select" ? select(name, [["", any], ...options], value, own) : el("input", { type: kind, name, value: kind === "date" ? dayOf(value) : value, ...own }));
    };
    const send = () => go(view.segments, new FormData(node));
    const node = form({ class: "filters", "aria-label": "Filters" }, send, fields.map(control), el("div", { class: "field" }, submit("Apply"), view.query.size > 0 && link(href(view.segments), "Clear")));
    // A date changes with each digit that is typed, so it waits for Apply.
    node.addEventListener("change", ({ target }) => { if (target.matches("select, [type=checkbox]")) send(); });
    return node;
}

// The day of a time, and nothing if it is none: browsers complain of a date that is not one.
function dayOf(text) {
    const day = text.slice(0, 10);
    const at = new Date(`${day}T00:00:00Z`);
    return !Number.isNaN(at.getTime()) && at.toISOString().slice(0, 10) === day ? day : "";
}

// Terms and their values; a value that is undefined, null or false is left out.
export const facts = (pairs) => el("dl", { class: "facts" },
    pairs.filter(([, value]) => (value ?? false) !== false).map(([term, ...value]) => el("div", {}, el("dt", {}, term), el("dd", {}, ...value))));

// A part of a page under a heading.
export function section(title, ...children) {
    const heading = title && el("h2", { id: id() }, title);
    return el("section", { "aria-labelledby": heading?.id }, heading, ...children);
}

// A cell of a file (RFC 4180). Spreadsheets run a text that begins like a formula, so it gets a `'`; numbers do not. Where the
// separator of lists is `;`, a spreadsheet also begins a cell after each `;` and line break of the text.
export function cell(value) {
    let text = String(value ?? "");
    text = text.replace(/([;\r\n][\s\u200b]*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])/g, "$1'");
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
