// Tables and lists: columns from data, pages by cursor, filters in the address, CSV.

import { get, pages } from "./api.js";
import { save } from "./csv.js";
import { button, el, id, labelled, link, select } from "./el.js";
import { go, href } from "./route.js";
import { block, failure } from "./states.js";

// A table. A column has a `name`, `cell(row, context)` for the page and `csv(row, context)` for the file; without `cell` it is
// in the file alone. The roles stay when a narrow screen shows each row as a card.
export function table(caption, all, rows, context) {
    const columns = all.filter(({ cell }) => cell);
    return el("table", { role: "table" },
        el("caption", {}, caption),
        el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, columns.map(({ name, kind }) => el("th", { role: "columnheader", scope: "col", class: kind }, name)))),
        el("tbody", { role: "rowgroup" }, rows.map((row) => el("tr", { role: "row" },
            columns.map(({ name, kind, cell }) => el("td", { role: "cell", "data-label": name, class: kind }, el("div", {}, cell(row, context))))))));
}

// The address that *Older* led from, by the address that it led to, so that *Newer* leads back.
const left = new Map();

// A list of the API: one page of it, with *Older*, *Newer* and CSV. `join(rows, signal)` reads what the columns need besides.
export function listing(view, { path, query, scope, caption, columns, empty, file, join = async () => null }) {
    const filter = new URLSearchParams(query ?? {});
    const cursor = view.query.get("cursor");
    const load = async (signal) => {
        const wanted = new URLSearchParams(filter);
        wanted.set("limit", "50");
        if (cursor) wanted.set("cursor", cursor);
        const page = await get(path, wanted, signal);
        return { page, context: await join(page.data, signal) };
    };
    const at = (cursor) => {
        const pairs = [...view.query].filter(([name]) => name !== "cursor");
        return href(view.segments, cursor ? [...pairs, ["cursor", cursor]] : pairs);
    };
    const show = ({ page, context }) => {
        if (!page.data.length && !cursor) return null;
        const newer = left.get(location.hash);
        const older = page.next_cursor && at(page.next_cursor);
        return [
            page.data.length ? table(caption, columns, page.data, context) : el("p", { class: "state" }, "The list ends here."),
            el("nav", { class: "pager", "aria-label": `Pages of ${caption}` },
                cursor && el("a", { href: newer ?? at(null), class: "button" }, newer ? "Newer" : "First page"),
                older && el("a", { href: older, class: "button", on: { click: () => left.set(older, location.hash) } }, "Older"),
                download(view, file, columns, (signal) => pages(path, filter, signal), join)),
        ];
    };
    // A link that was shared may hold a cursor or a filter that the API refuses.
    const wayOut = ({ code }) => (code === "invalid_cursor" ? link(at(null), "Go to the first page") : code === "invalid_query" ? link(href(view.segments), "Clear the filters") : null);
    return block(view, { scope, load, show, empty, wayOut, name: caption.toLowerCase() });
}

const ROWS_MAX = 10_000;

// A button that saves all rows of a list. `source(signal)` gives the pages; the last line says if there were more.
export function download(view, file, all, source, join = async () => null) {
    const columns = all.filter(({ csv }) => csv);
    const told = el("span", { role: "status" });
    const run = async () => {
        const rows = [columns.map(({ name }) => name)];
        let more = false;
        try {
            for await (const page of source(view.signal)) {
                const context = await join(page.data, view.signal);
                rows.push(...page.data.map((row) => columns.map(({ csv }) => csv(row, context))));
                more = Boolean(page.next_cursor) && rows.length > ROWS_MAX;
                told.textContent = `${rows.length - 1} rows…`;
            }
        } catch (error) {
            if (!view.signal.aborted) told.replaceChildren(failure(error));
            return;
        }
        const count = rows.length - 1;
        if (more) rows.push([`Only the first ${ROWS_MAX} rows: there are more.`]);
        save(`${file}.csv`, rows);
        told.textContent = `${count} rows saved.`;
    };
    return [button("CSV", run, { title: "Save this list as a file" }), told];
}

// A button that saves rows that are on the page already.
export const saveRows = (file, rows) => button("CSV", () => save(`${file}.csv`, rows()), { title: "Save these numbers as a file" });

// A form of filters over the address. A field has a `name`, a `label` and a `kind`: `select` and `checks` with `options`,
// `date`, `search` or `text`; `attributes` are more of its control.
export function filters(view, fields) {
    const control = (field) => {
        const chosen = view.query.getAll(field.name);
        if (field.kind === "checks") {
            return el("fieldset", { class: "checks" }, el("legend", {}, field.label), field.options.map(([value, text]) => {
                const box = el("input", { type: "checkbox", name: field.name, value, checked: chosen.includes(value), id: `filter-${field.name}-${value}` });
                return el("label", { for: box.id }, box, text);
            }));
        }
        const own = { id: `filter-${field.name}`, ...field.attributes };
        if (field.kind === "select") return labelled(field.label, select(field.name, [["", field.any ?? "all"], ...field.options], chosen[0] ?? "", own));
        const text = chosen[0] ?? "";
        return labelled(field.label, el("input", { type: field.kind, name: field.name, value: field.kind === "date" ? dayOf(text) : text, ...own }));
    };
    const send = () => go(view.segments, [...new FormData(form)].filter(([name, value]) => value && fields.some((field) => field.name === name)));
    const form = el("form", { class: "filters", "aria-label": "Filters", on: {
        submit: (event) => { event.preventDefault(); send(); },
        // A date changes with each digit that is typed, so it waits for Apply.
        change: (event) => { if (event.target.matches("select, [type=checkbox]")) send(); },
    } }, fields.map(control), el("div", { class: "field" }, el("button", { type: "submit" }, "Apply"), [...view.query].length ? link(href(view.segments), "Clear") : null));
    return form;
}

// The day of a time, and nothing if it is none: browsers complain of a date that is not one.
function dayOf(text) {
    const day = text.slice(0, 10);
    const at = new Date(`${day}T00:00:00Z`);
    return Number.isNaN(at.getTime()) || at.toISOString().slice(0, 10) !== day ? "" : day;
}

// Terms and their values.
export const facts = (pairs) => el("dl", { class: "facts" }, pairs.filter(([, value]) => value !== undefined).map(([term, ...value]) => el("div", {}, el("dt", {}, term), el("dd", {}, ...value))));

// A part of a page under a heading.
export function section(title, ...children) {
    if (!title) return el("section", {}, ...children);
    const heading = el("h2", { id: id() }, title);
    return el("section", { "aria-labelledby": heading.id }, heading, ...children);
}
