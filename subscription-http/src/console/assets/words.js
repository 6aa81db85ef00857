// Money, dates and statuses in words.

import { now } from "./api.js";
import { el } from "./el.js";

// An amount in its currency, with the digits that the currency has. `amount` is text: no float is involved.
export function money(amount, currency) {
    if (amount === null || amount === undefined) return "–";
    if (!currency) return `${number(amount)} (no currency)`;
    try {
        return new Intl.NumberFormat(undefined, { style: "currency", currency }).format(amount);
    } catch {
        return `${amount} ${currency}`;
    }
}

export const number = (value) => new Intl.NumberFormat(undefined, { maximumFractionDigits: 6 }).format(value);

const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", timeZone: "UTC" });
const month = new Intl.DateTimeFormat(undefined, { month: "short", year: "numeric", timeZone: "UTC" });

export const dayText = (at) => (at ? day.format(new Date(at)) : "–");
export const momentText = (at) => (at ? `${moment.format(new Date(at))} UTC` : "–");
export const monthText = (text) => month.format(new Date(`${text}-01T00:00:00Z`));

// A period of time; one without an end is "from" its start.
export const period = (start, end) => (end ? `${dayText(start)} – ${dayText(end)}` : `from ${dayText(start)}`);

// A date; the exact moment is in its title.
export const date = (at) => (at ? el("time", { datetime: at, title: momentText(at) }, dayText(at)) : "–");

// A date with its time.
export const time = (at) => (at ? el("time", { datetime: at }, momentText(at)) : "–");

export const STATUSES = ["pending", "on_trial", "active", "past_due", "unpaid", "paused", "cancelled", "expired"];

// `past_due` as people read it.
export const words = (name) => String(name).replaceAll("_", " ");

// A status as a mark with a colour and a word.
export const pill = (status) => el("span", { class: `pill ${status}` }, words(status));

// The state of a subscription in a sentence.
export function sentence(subscription) {
    const { status, starts_at, ends_at, trial_ends_at, resumes_at, renews_at, blocked, is_active, past_due_since } = subscription;
    const until = ends_at && dayText(ends_at);
    const base = {
        pending: Date.parse(starts_at) > now() ? `starts on ${dayText(starts_at)}` : "waits for its first payment",
        on_trial: trial_ends_at ? `on trial until ${dayText(trial_ends_at)}` : "on trial",
        active: until ? `active until ${until}` : renews_at ? `active, renews on ${dayText(renews_at)}` : "active, without an end",
        past_due: past_due_since ? `past due since ${dayText(past_due_since)}` : "past due",
        unpaid: "unpaid, retries have ended",
        paused: resumes_at ? `paused until ${dayText(resumes_at)}` : "paused",
        cancelled: until ? `cancelled, ${is_active ? "access until" : "ends on"} ${until}` : "cancelled",
        expired: until ? `ended on ${until}` : "ended",
    }[status] ?? words(status);
    return blocked ? `${base}; access is blocked` : base;
}

const UNITS = { D: "day", W: "week", M: "month", Y: "year" };

// `monthly`, or "every 18 months" for P18M.
export function cycle(text) {
    const [, count, unit] = /^P(\d+)([DWMY])$/.exec(text) ?? [];
    return unit ? `every ${count} ${UNITS[unit]}s` : words(text);
}

// A name with dots, which may break after each of them.
export const dotted = (name) => String(name).split(/(?<=[._])/).flatMap((part) => [part, el("wbr")]);

// An id in a form that fits into a table: its end, since ids of one time begin alike.
export const short = (id) => `…${String(id).slice(-8)}`;

// The actor of an event in words.
export const actor = (text) => (text ? String(text).replace(":", " ") : "not known");

// The name of a plan, also if it cannot be read.
export const planName = (id, plans) => plans.find((plan) => plan.id === id)?.name ?? `plan ${short(id)}`;

// A scheduled change in words.
export function scheduledText({ scheduled_change: change }, plans) {
    const when = change.effective_at ? `on ${dayText(change.effective_at)}` : "at the next renewal";
    if (change.action === "pause") return `it pauses ${when}, ${change.resumes_at ? `until ${dayText(change.resumes_at)}` : "until it is resumed"}`;
    return `it changes to ${planName(change.subscription_plan_id, plans)} ${when}: ${terms(change)}`;
}

// Price, quantity and cycle: "$29.00 × 3, monthly".
export const terms = ({ price, currency, quantity, billing_cycle }) => `${money(price, currency)} × ${number(quantity)}, ${cycle(billing_cycle)}`;
