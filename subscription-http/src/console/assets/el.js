// Elements from data, money, dates and statuses in words, and the states of everything that is loaded. Text becomes text nodes,
// never markup.

import { can, now } from "./api.js";

const SVG = "http://www.w3.org/2000/svg";

// `on` holds listeners; an attribute or a child that is null, undefined or false is left out.
export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const p = (...children) => el("p", {}, ...children);
export const code = (text) => el("code", {}, text);
export const note = (...children) => el("p", { class: "state" }, ...children);
export const soft = (...children) => el("p", { class: "soft" }, ...children);
export const wrong = (text) => el("p", { class: "error", role: "alert" }, text);
export const beside = (...text) => el("div", {}, el("small", {}, ...text));
export const pager = (...children) => el("div", { class: "pager" }, ...children);

const isGiven = (value) => value !== null && value !== undefined && value !== false;
const shown = (children) => children.flat(Infinity).filter(isGiven);

function fill(node, { on = {}, ...attributes } = {}, children) {
    for (const [event, listener] of Object.entries(on)) node.addEventListener(event, listener);
    for (const [name, value] of Object.entries(attributes)) {
        if (!isGiven(value)) continue;
        if (name === "value" || name === "checked") node[name] = value;
        else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...shown(children));
    return node;
}

// Replaces all children.
export const replace = (node, ...children) => node.replaceChildren(...shown(children));

export const link = (href, ...text) => el("a", { href }, ...text);

// A link to another site; anything but https is shown as text.
export const outside = (url, text) => (url.startsWith("https://") ? el("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, text) : text);

export const button = (text, click, attributes) => el("button", { type: "button", ...attributes, on: { click } }, text);
export const submit = (text, attributes) => el("button", { type: "submit", ...attributes }, text);

// A form that is sent by `send()`.
export const form = (attributes, send, ...children) => el("form", { ...attributes, on: { submit: (event) => { event.preventDefault(); send(); } } }, ...children);

let ids = 0;

// An id for a label or a caption.
export const id = () => `e${(ids += 1)}`;

// A form control with its label.
export function labelled(label, control, hint) {
    control.id ||= id();
    const small = hint && el("small", { id: id() }, hint);
    if (small) control.setAttribute("aria-describedby", small.id);
    return el("div", { class: "field" }, el("label", { for: control.id }, label), control, small);
}

export const input = (label, attributes, hint) => labelled(label, el("input", attributes), hint);

// A list to choose from: `options` are [value, text] or a text that is both.
export function select(name, options, chosen, attributes) {
    const pairs = options.map((option) => (Array.isArray(option) ? option : [option, option]));
    return el("select", { name, ...attributes }, pairs.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
}

// Checkboxes or radio buttons, by `type`: `options` are [value, text], `chosen` has the values of the options that are chosen.
export const boxes = (legend, type, name, options, chosen) => el("fieldset", { class: "checks" }, el("legend", {}, legend),
    options.map(([value, text]) => el("label", {}, el("input", { type, name, value, checked: chosen.includes(value), id: `filter-${name}-${value}` }), text)));

export const loading = (name) => el("p", { class: "state", role: "status" }, `Loading ${name}…`);

// A part of a page that loads its data. `scope` is needed to see it; `show(data, reload)` gives its nodes, and null if there is
// nothing, for which `empty` is a text or gives nodes. `wayOut(error)` gives a link out of an error.
export function block(view, { scope, load, show, empty, name, wayOut }) {
    const node = el("div", { class: "block" });
    const run = async () => {
        const focused = node.contains(document.activeElement);
        node.ariaBusy = "true";
        replace(node, loading(name));
        try {
            const data = await load(view.signal);
            replace(node, show(data, run) ?? el("div", { class: "state" }, typeof empty === "function" ? empty(data) : p(empty)));
        } catch (error) {
            if (view.signal.aborted) return;
            replace(node, failure(error, run), wayOut?.(error));
        }
        node.ariaBusy = null;
        // The button that started the reload is gone, so the focus moves to this part of the page.
        if (focused && document.activeElement === document.body) {
            node.tabIndex = -1;
            node.focus();
        }
    };
    if (can(scope)) run();
    else replace(node, noPermission(scope));
    return node;
}

export const noPermission = (scope) => note("Your key does not allow this: the scope ", code(scope), " is missing.");

// Shows an error, with the faults of single fields, the request id by which it is found in the log, and a button to try again.
export function failure(error, retry) {
    if (error.code === undefined) console.error(error);
    const faults = error.body?.errors ?? [];
    return el("div", { class: "state error", role: "alert" },
        p(faults.length ? `${faults.length === 1 ? "One field is" : `${faults.length} fields are`} not right:` : error.message),
        faults.length > 0 && el("ul", {}, faults.map(({ field, message }) => el("li", {}, code(field), ` ${message}`))),
        p(code([error.code ?? error.name, error.request_id && `request ${error.request_id}`].filter(Boolean).join(", "))),
        retry && button("Try again", retry));
}

// An amount in its currency, with the digits that the currency has. `amount` is text: no float is involved.
export function money(amount, currency) {
    if (amount === null || amount === undefined) return "–";
    return currency ? new Intl.NumberFormat(undefined, { style: "currency", currency }).format(amount) : `${number(amount)} (no currency)`;
}

export const number = (value) => new Intl.NumberFormat(undefined, { maximumFractionDigits: 6 }).format(value);

const dates = (options) => new Intl.DateTimeFormat(undefined, { timeZone: "UTC", ...options });
const day = dates({ dateStyle: "medium" });
const moment = dates({ dateStyle: "medium", timeStyle: "medium" });
const month = dates({ month: "short", year: "numeric" });

export const dayText = (at) => (at ? day.format(new Date(at)) : "–");
export const momentText = (at) => `${moment.format(new Date(at))} UTC`;
export const monthText = (text) => month.format(new Date(`${text}-01T00:00:00Z`));

// A period as text: "from" its start, if it has no end.
export const period = (start, end) => (end ? `${dayText(start)} – ${dayText(end)}` : start ? `from ${dayText(start)}` : "–");

// A date. The title of the element has the exact moment.
export const date = (at) => (at ? el("time", { datetime: at, title: momentText(at) }, dayText(at)) : "–");

// A date with the time of day.
export const time = (at) => (at ? el("time", { datetime: at }, momentText(at)) : "–");

export const STATUSES = ["pending", "on_trial", "active", "past_due", "unpaid", "paused", "cancelled", "expired"];
export const CYCLES = ["daily", "weekly", "biweekly", "monthly", "bimonthly", "quarterly", "semiannual", "yearly", "biennial", "one_time"];

// The name of a status for people: "past due" for `past_due`.
export const words = (name) => String(name ?? "–").replaceAll("_", " ");

// A status as a mark with a colour and a word.
export const pill = (status) => el("span", { class: `pill ${status}` }, words(status));

// The state of a subscription in a sentence.
export function sentence({ status, starts_at, ends_at, trial_ends_at, resumes_at, renews_at, blocked, is_active, past_due_since }) {
    const until = (at, before, otherwise = "") => (at ? `${before} ${dayText(at)}` : otherwise);
    const base = {
        pending: Date.parse(starts_at) > now() ? until(starts_at, "starts on") : "waits for its first payment",
        on_trial: `on trial${until(trial_ends_at, " until")}`,
        active: `active${until(ends_at, " until", until(renews_at, ", renews on", ", without an end"))}`,
        past_due: `past due${until(past_due_since, " since")}`,
        unpaid: "unpaid, retries have ended",
        paused: `paused${until(resumes_at, " until")}`,
        cancelled: `cancelled${until(ends_at, is_active ? ", access until" : ", ends on")}`,
        expired: `ended${until(ends_at, " on")}`,
    }[status];
    return blocked ? `${base}; access is blocked` : base;
}

const UNITS = { D: "day", W: "week", M: "month", Y: "year" };

// A billing cycle for people: `monthly`, or "every 18 months" for P18M.
export function cycle(text) {
    const [, count, unit] = /^P(\d+)([DWMY])$/.exec(text) ?? [];
    return unit ? `every ${count} ${UNITS[unit]}s` : words(text);
}

// A name with dots, which may break after each of them.
export const dotted = (name) => name.split(/(?<=[._])/).flatMap((part) => [part, el("wbr")]);

// The end of an id, because ids that were made at the same time begin alike.
export const short = (id) => `…${String(id).slice(-8)}`;

// The actor of an event.
export const actor = (text) => text.replace(":", " ");

// The name of a plan, or its id if the plan cannot be read.
export const planName = (id, plans) => plans.find((plan) => plan.id === id)?.name ?? `plan ${short(id)}`;

// A scheduled change in words.
export function scheduledText({ scheduled_change: change }, plans) {
    const when = change.effective_at ? `on ${dayText(change.effective_at)}` : "at the next renewal";
    if (change.action === "pause") return `it pauses ${when}, until ${change.resumes_at ? dayText(change.resumes_at) : "it is resumed"}`;
    return `it changes to ${planName(change.subscription_plan_id, plans)} ${when}: ${terms(change)}`;
}

// The lines of an amount, as facts.
export const lineFacts = (lines, currency) => lines.map(({ kind, amount }) => [words(kind), (kind === "period" || kind === "change" ? "" : "−") + money(amount, currency)]);

// Price, quantity and cycle: "$29.00 × 3, monthly".
export const terms = ({ price, currency, quantity, billing_cycle }) => `${money(price, currency)} × ${number(quantity)}, ${cycle(billing_cycle)}`;
