// The feed of events: its newest part, newest event first. New events are added while the tab is visible.

import { can, get, href, isUuid, params } from "./api.js";
import { actor, block, button, code, dotted, el, failure, link, note, number, pager, replace, short, time, words } from "./el.js";
import { column, download, facts, filters, section, table } from "./table.js";

const ROWS_MAX = 500;
// The number of events that are read at once. More are read if the list is of one type, because few events have this type.
const PART = 200;
const PART_OF_TYPE = 5_000;
// The number of milliseconds between two calls.
const PAUSE = 2_000;

// The types to choose from. The address may name any other type.
const TYPES = [
    "plan.*", "subscription.*", "subscription.created", "subscription.status_changed", "subscription.period_started", "subscription.plan_changed", "subscription.trial_will_end", "subscription.renewal_upcoming",
    "payment.*", "payment.created", "payment.status_changed.succeeded", "payment.status_changed.failed", "payment.status_changed.refunded",
];

export default function (view) {
    view.title("Events");
    const types = can("users:read") ? [...TYPES, "user.*", "session.*", "client.*"] : [...TYPES];
    const chosen = view.query.get("type");
    if (chosen && !types.includes(chosen)) types.push(chosen);
    view.add(
        filters(view, [
            { name: "type", label: "Type", kind: "select", options: types },
            { name: "subject_id", label: "Id of the record", kind: "search" },
        ]),
        section(null, block(view, { scope: "events:read", name: "events", load: (signal) => load(view, signal), show: (part) => show(view, part) })),
    );
}

const filter = ({ query }) => ({ type: query.get("type"), subject_id: query.get("subject_id")?.trim() });
const read = (view, place, signal) => get("/events", params({ ...filter(view), limit: 200, ...place }), signal);

// Reads the newest part of the feed, or the part before a sequence. For one record all events are read, because it has few.
async function load(view, signal) {
    const oldest = await get("/events", { limit: "1" }, signal);
    const floor = (oldest.data[0]?.sequence ?? oldest.last + 1) - 1;
    const last = Math.min((Number(view.query.get("before")) || Infinity) - 1, oldest.last);
    const { type, subject_id } = filter(view);
    const rows = [];
    let from = subject_id ? floor : Math.max(floor, last - (type ? PART_OF_TYPE : PART));
    for (let after = from; after < last; ) {
        const page = await read(view, { after }, signal);
        rows.push(...page.data.filter(({ sequence }) => sequence <= last));
        after = page.has_more ? page.next_after : last;
    }
    if (rows.length > ROWS_MAX) from = rows.at(-ROWS_MAX).sequence - 1;
    return { rows: rows.slice(-ROWS_MAX).reverse(), from, floor, last, isNewest: last === oldest.last };
}

function show(view, { rows, from, floor, last, isNewest }) {
    const list = table(isNewest ? "Events, newest first" : `Events up to ${number(last)}, newest first`, columns, rows);
    const none = note(!rows.length && "No event fits in this part of the feed.");
    const add = (events) => {
        none.textContent = "";
        rows.unshift(...events.reverse());
        list.tBodies[0].prepend(...table("", columns, events).tBodies[0].rows);
        while (list.rows.length > ROWS_MAX) list.deleteRow(-1);
    };
    return [
        isNewest && following(view, last, add), list, none,
        el("nav", { class: "pager", "aria-label": "Parts of the feed" },
            !isNewest && el("a", { class: "button", href: href("events", filter(view)) }, "Newest"),
            from > floor && el("a", { class: "button", href: href("events", { ...filter(view), before: from + 1 }) }, "Older"),
            download(view, "events", columns, () => [{ data: rows, next_cursor: from > floor }])),
    ];
}

// Adds the events after `last`, by calls that wait for events, while the tab is visible and the user has not paused the list.
function following(view, last, add) {
    const told = el("div", { role: "status" });
    let after = last, count = 0, paused = false, calls = new AbortController();
    const follow = async () => {
        calls.abort();
        calls = new AbortController();
        const { signal } = calls;
        replace(told, paused ? "Paused." : "New events appear by themselves.");
        if (paused || document.hidden || view.signal.aborted) return;
        try {
            for (;;) {
                await new Promise((resolve) => setTimeout(resolve, PAUSE));
                if (signal.aborted) return;
                const page = await read(view, { after, wait: 25 }, signal);
                // The list is far behind the feed, or the database was restored from a backup.
                if (page.last < after || page.last - page.next_after > ROWS_MAX) return view.reload();
                after = page.next_after;
                if (!page.data.length) continue;
                add(page.data);
                count += page.data.length;
                told.textContent = `New events: ${number(count)}.`;
            }
        } catch (error) {
            if (!signal.aborted) replace(told, failure(error, follow));
        }
    };
    const toggle = button("Pause following", () => {
        paused = !paused;
        toggle.textContent = paused ? "Follow again" : "Pause following";
        follow();
    });
    document.addEventListener("visibilitychange", follow, { signal: view.signal });
    view.signal.addEventListener("abort", () => calls.abort());
    follow();
    return pager(toggle, told);
}

// The address of the page of an event's record. For a record without a page, and for a deleted record, it is the list of the record's events.
export function recordHref({ type, subject: { kind, id } }) {
    if (kind === "client") return href("events", { type: "client.*" });
    if (type.endsWith(".deleted") || kind === "session") return href("events", { subject_id: id });
    if (kind === "payment") return href("search", { q: id });
    return kind === "plan" ? href("plans") : href([`${kind}s`, id]);
}

// Describes the change of an event in a few words.
function brief({ from, to, fields, reason }) {
    if (from && to) return `${words(from)} → ${words(to)}`;
    return fields?.length ? fields.map(words).join(", ") : words(reason ?? "details");
}

const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const details = ({ subject, change }) => el("details", {}, el("summary", {}, brief(change)), facts([["Record", code(subject.id)], ...Object.entries(change).map(([name, value]) => [words(name), text(value)])]));

const columns = [
    column("Event", "type", (type, row) => link(recordHref(row), ...dotted(type))),
    { name: "Record", cell: ({ subject: { id } }) => (isUuid(id) ? link(href("events", { subject_id: id }), short(id)) : id), csv: (row) => row.subject.id },
    { name: "Change", cell: details, csv: (row) => JSON.stringify(row.change) },
    column("By", "actor", (by) => actor(by).replace(/[0-9a-f-]{36}$/, short)),
    column("At", "at", time), column("Sequence", "sequence", number),
];
