// The feed of events: its newest part, newest first, which follows while the tab is visible.

import { can, get, isUuid } from "./api.js";
import { button, el, link, replace } from "./el.js";
import { href } from "./route.js";
import { block, failure } from "./states.js";
import { download, facts, filters, section, table } from "./table.js";
import { actor, dotted, number, short, time, words } from "./words.js";

const ROWS_MAX = 500;
// How much of the feed is read; of a filtered feed more, since few events fit.
const PART = 200;
const PART_FILTERED = 2_000;
const PART_MAX = 32_000;
const SAVED = 10_000;
// Milliseconds between two calls, and the longest pause after failures.
const PAUSE = 2_000;
const PAUSE_MAX = 60_000;

const CHANGES = {
    plan: ["created", "updated", "deleted"],
    subscription: ["created", "updated", "status_changed", "period_started", "periods_skipped", "plan_changed", "trial_will_end", "renewal_upcoming", "deleted"],
    payment: ["created", "updated", "status_changed", "status_changed.succeeded", "status_changed.failed", "status_changed.refunded", "deleted"],
    user: ["created", "updated", "deleted"], session: ["created", "revoked", "deleted"], client: ["created", "updated"],
};
const OF_ACCOUNTS = ["user", "session", "client"];

export default function (view) {
    view.title("Events");
    const kinds = Object.entries(CHANGES).filter(([kind]) => can("users:read") || !OF_ACCOUNTS.includes(kind));
    const types = kinds.flatMap(([kind, changes]) => [[`${kind}.*`, `all of ${kind}`], ...changes.map((change) => `${kind}.${change}`)]);
    view.add(
        filters(view, [
            { name: "type", label: "Type", kind: "select", options: [...types, ...view.query.getAll("type").filter((type) => !types.flat().includes(type))] },
            { name: "subject_id", label: "Id of the record", kind: "search", attributes: { spellcheck: "false", autocomplete: "off" } },
        ]),
        section(null, block(view, { scope: "events:read", name: "events", load: (signal) => load(view, signal), show: (part) => show(view, part) })),
    );
}

const filter = (view) => [...view.query].filter(([name, value]) => (name === "type" || name === "subject_id") && value.trim()).map(([name, value]) => [name, value.trim()]);
const read = (view, after, more, signal) => get("/events", new URLSearchParams([...filter(view), ["after", String(after)], ...more]), signal);

// A part of the feed: the newest one, or the one before a sequence.
async function load(view, signal) {
    const oldest = await get("/events", new URLSearchParams({ limit: "1" }), signal);
    const floor = Math.max(0, (oldest.data[0]?.sequence ?? oldest.last + 1) - 1);
    const before = Number.parseInt(view.query.get("before"), 10);
    const last = before > 0 ? Math.min(before - 1, oldest.last) : oldest.last;
    const isOne = Boolean(view.query.get("subject_id")), isFiltered = Boolean(view.query.get("type"));
    const rows = [];
    let from = last;
    // While nothing fits, twice as much is read.
    for (let part = isOne ? Infinity : isFiltered ? PART_FILTERED : PART; !rows.length && from > floor && (part <= PART_MAX || isOne); part *= 2) {
        const to = from;
        from = Math.max(floor, to - part);
        for await (const page of between(view, from, to, signal)) rows.push(...page.data);
    }
    // One record has few events: all of them are saved.
    const saved = isOne ? floor : Math.max(floor, last - SAVED);
    return { rows: rows.slice(-ROWS_MAX).reverse(), from, floor, last, saved, isNewest: last === oldest.last };
}

// The pages after one sequence up to another, oldest first.
async function* between(view, from, last, signal) {
    for (let after = from; after < last; ) {
        const page = await read(view, after, [["limit", "200"]], signal);
        yield { data: page.data.filter(({ sequence }) => sequence <= last) };
        if (page.next_after <= after) return;
        after = page.next_after;
    }
}

function show(view, { rows, from, floor, last, saved, isNewest }) {
    const list = table(isNewest ? "Events, newest first" : `Events up to ${number(last)}, newest first`, columns, rows);
    const body = list.tBodies[0];
    const none = el("p", { class: "state" }, rows.length ? null : "No event fits in this part of the feed.");
    const add = (events) => {
        none.textContent = "";
        body.prepend(...table("", columns, events.toReversed()).tBodies[0].rows);
        while (body.rows.length > ROWS_MAX) body.lastChild.remove();
    };
    return [
        isNewest && following(view, last, add), list, none,
        el("nav", { class: "pager", "aria-label": "Parts of the feed" },
            !isNewest && el("a", { class: "button", href: href("events", filter(view)) }, "Newest"),
            from > floor && el("a", { class: "button", href: href("events", [...filter(view), ["before", from + 1]]) }, "Older"),
            download(view, "events", columns, (signal) => between(view, saved, last, signal)),
            saved > floor && el("small", {}, `The file has what fits of the ${number(SAVED)} newest events.`)),
    ];
}

// Reads what comes after `last` by calls that wait, while the tab is visible and nobody paused it. The signal of the view ends it.
function following(view, last, add) {
    const told = el("span", { role: "status" }, "New events appear by themselves.");
    const fault = el("div");
    let after = last, count = 0, paused = false, delay = PAUSE, code = null;
    let poll = new AbortController();
    let wake = () => {};
    const interrupt = () => { poll.abort(); wake(); };
    const rest = (time) => new Promise((resolve) => { wake = resolve; if (time) setTimeout(resolve, time); });
    const take = (page) => {
        // Far behind, or a database that was restored from an older copy: begin again.
        if (page.last < after || page.last - page.next_after > ROWS_MAX) return view.reload();
        after = page.next_after;
        if (!page.data.length) return;
        add(page.data);
        count += page.data.length;
        told.textContent = `${number(count)} new ${count === 1 ? "event" : "events"}.`;
    };
    const run = async () => {
        await rest(PAUSE);
        while (!view.signal.aborted) {
            if (document.hidden || paused) { await rest(); continue; }
            poll = new AbortController();
            try {
                take(await read(view, after, [["limit", "200"], ["wait", "25"]], poll.signal));
                [delay, code] = [PAUSE, null];
                replace(fault);
            } catch (error) {
                if (poll.signal.aborted) continue;
                delay = Math.min(delay * 2, PAUSE_MAX);
                if (code !== error.code) replace(fault, failure(error, interrupt), el("p", { class: "state" }, "It is tried again by itself, after longer and longer pauses."));
                code = error.code;
            }
            await rest(delay);
        }
    };
    const toggle = button("Pause following", () => {
        paused = !paused;
        toggle.textContent = paused ? "Follow again" : "Pause following";
        told.textContent = paused ? "Paused." : "New events appear by themselves.";
        interrupt();
    });
    document.addEventListener("visibilitychange", interrupt, { signal: view.signal });
    view.signal.addEventListener("abort", interrupt);
    run();
    return el("div", {}, el("div", { class: "pager" }, toggle, told), fault);
}

// The page of the record of an event. A record without a page, or a deleted one, has its events.
export function recordHref({ type, subject: { kind, id } }) {
    if (kind === "client") return href("events", { type: "client.*" });
    if (type.endsWith(".deleted") || kind === "session") return href("events", { subject_id: id });
    if (kind === "payment") return href("search", { q: id });
    return kind === "plan" ? href("plans") : href([`${kind}s`, id]);
}

// The change in a few words.
export function brief({ change }) {
    if (change.from && change.to) return `${words(change.from)} → ${words(change.to)}`;
    if (change.fields?.length) return change.fields.map(words).join(", ");
    if (change.reason) return words(change.reason);
    return "details";
}

const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const details = (event) => el("details", {}, el("summary", {}, brief(event)), facts([
    ["Record", el("code", {}, event.subject.id)], ["By", actor(event.actor)], ["Version", number(event.version)],
    ...Object.entries(event.change).map(([name, value]) => [words(name), Array.isArray(value) ? value.join(", ") : text(value)]),
    ["History", isUuid(event.subject.id) ? link(href("events", { subject_id: event.subject.id }), "Events of this record") : undefined]]));

const columns = [
    { name: "Event", cell: (row) => link(recordHref(row), ...dotted(row.type)), csv: (row) => row.type },
    { name: "Record", cell: (row) => el("code", { title: row.subject.id }, isUuid(row.subject.id) ? short(row.subject.id) : row.subject.id), csv: (row) => row.subject.id },
    { name: "Change", cell: details, csv: (row) => JSON.stringify(row.change) },
    { name: "By", cell: (row) => actor(row.actor).replace(/[0-9a-f-]{36}$/, short), csv: (row) => row.actor },
    { name: "At", cell: (row) => time(row.at), csv: (row) => row.at },
    { name: "Sequence", kind: "number", cell: (row) => number(row.sequence), csv: (row) => row.sequence },
];
