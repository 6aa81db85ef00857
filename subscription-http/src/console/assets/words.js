// Money, dates and statuses in words.

import { now } from "./api.js";
import { el } from "./el.js";

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

// A period; one without an end is "from" its start.
export const period = (start, end) => (end ? `${dayText(start)} – ${dayText(end)}` : start ? `from ${dayText(start)}` : "–");

// A date; the exact moment is in its title.
export const date = (at) => (at ? el("time", { datetime: at, title: momentText(at) }, dayText(at)) : "–");

// A date with its time.
export const time = (at) => (at ? el("time", { datetime: at }, momentText(at)) : "–");

export const STATUSES = ["pending", "on_trial", "active", "past_due", "unpaid", "paused", "cancelled", "expired"];
export const CYCLES = ["daily", "weekly", "biweekly", "monthly", "bimonthly", "quarterly", "semiannual", "yearly", "biennial", "one_time"];

// `past_due` as people read it.
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

// `monthly`, or "every 18 months" for P18M.
export function cycle(text) {
    const [, count, unit] = /^P(\d+)([DWMY])$/.exec(text) ?? [];
    return unit ? `every ${count} ${UNITS[unit]}s` : words(text);
}

// A name with dots, which may break after each of them.
export const dotted = (name) => name.split(/(?<=[._])/).flatMap((part) => [part, el("wbr")]);

// The end of an id, since ids of one time begin alike.
export const short = (id) => `…${String(id).slice(-8)}`;

// The actor of an event.
export const actor = (text) => text?.replace(":", " ") ?? "not known";

// The name of a plan, also if it cannot be read.
export const planName = (id, plans) => plans.find((plan) => plan.id === id)?.name ?? `plan ${short(id)}`;

// A scheduled change in words.
export function scheduledText({ scheduled_change: change }, plans) {
    const when = change.effective_at ? `on ${dayText(change.effective_at)}` : "at the next renewal";
    if (change.action === "pause") return `it pauses ${when}, until ${change.resumes_at ? dayText(change.resumes_at) : "it is resumed"}`;
    return `it changes to ${planName(change.subscription_plan_id, plans)} ${when}: ${terms(change)}`;
}

// Price, quantity and cycle: "$29.00 × 3, monthly".
export const terms = ({ price, currency, quantity, billing_cycle }) => `${money(price, currency)} × ${number(quantity)}, ${cycle(billing_cycle)}`;
