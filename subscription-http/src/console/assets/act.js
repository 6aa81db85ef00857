// How an action is sent, how its result is told, and what its errors mean.

import { call, get } from "./api.js";
import { dialog } from "./dialog.js";
import { button, el, link, outside } from "./el.js";
import { href } from "./route.js";
import { failure } from "./states.js";
import { table } from "./table.js";
import { scheduledText, sentence, words } from "./words.js";

// Asks in a dialog, whose button is named like its `title`. Once it is done, the page is read again and tells what `done` says.
export async function ask(context, { title, done, ...options }) {
    const told = () => document.getElementById("told") ?? el("p");
    told().textContent = "";
    if (!(await dialog({ title, confirm: title, explain: (error, form) => explain(error, form, context), ...options }))) return;
    // The page is out of date until it is read again.
    context.view.root.inert = true;
    await context.view.reload();
    told().textContent = done();
    told().focus();
}

// A function that sends a request with the version that was seen. The same request again has the same Idempotency-Key, so it is done once.
export function once() {
    let [last, key] = [];
    return async ({ record, etag, path }, method, end, body) => {
        const text = JSON.stringify([path, end, body]);
        if (text !== last) [last, key] = [text, crypto.randomUUID()];
        try {
            return (await call(method, `${path}${end}`, { body, ifMatch: etag, headers: method === "POST" ? { "idempotency-key": key } : {} })).data;
        } catch (error) {
            if (error.status === 412) Object.assign(error, { seen: record, current: await get(path).catch(() => null) });
            throw error;
        }
    };
}

// The record after an action in words.
export function result({ record, plans }, answer) {
    if (answer.version === record.version) return "Nothing has changed: it was so already.";
    return `Done: ${sentence(answer)}${answer.scheduled_change ? `; ${scheduledText(answer, plans)}` : ""}.`;
}

const ADVICE = {
    invalid_transition: "Its status does not allow this. Reload the page to see what it allows now.",
    payment_open: "Let the payment be paid or cancel it first. A change of plan can also wait for the period's end.",
    managed_by_provider: "Do it at the payment provider.",
    managed_by_caller: "Your own code manages this: do it there, or hand the subscription to the clock first.",
    managed_by_clock: "The clock manages this subscription. Reload the page to see what it allows.",
    change_scheduled: "Use “Drop the scheduled change” first.",
    already_subscribed: "Cancel one of the two first.",
    currency_mismatch: "Choose the period's end. Credit is not exchanged, so it must be 0; and the plan needs a currency.",
    plan_inactive: "Choose another plan, or make this one active again.",
    precondition_failed: "Somebody else, or the clock, has changed it since you opened this page. Nothing was done.",
    idempotency_in_progress: "The same request is under way. Wait a moment, then press again.",
    not_found: "It is not there any more. Reload the page.",
    unreachable: "It is not known whether it was done. Press again: the same request is done once.",
    scope_missing: "Ask for a key that has this scope.",
};

// An error in a dialog, with what to do about it.
export function explain(error, form, { view, record }) {
    const reload = () => { form.closest("dialog").close(); view.reload(); };
    return [
        failure(error),
        ADVICE[error.code] && el("p", {}, ADVICE[error.code]),
        error.code === "managed_by_provider" && record.manage_url && el("p", {}, outside(record.manage_url, "Manage it at the provider")),
        error.body?.holder && el("p", {}, link(href(["subscriptions", error.body.holder]), "Show the other subscription")),
        error.current && comparison(error.seen, error.current),
        ["precondition_failed", "invalid_transition", "managed_by_clock", "not_found"].includes(error.code) && el("p", {}, button("Reload the page", reload)),
    ];
}

// The fields that differ between the version that was seen and the present one.
export function comparison(seen, current) {
    const shown = (value) => (value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value));
    const fields = Object.keys(current).filter((name) => name !== "updated_at" && shown(seen[name]) !== shown(current[name]));
    return table("What is different", [
        { name: "Field", cell: (name) => words(name) },
        { name: "You saw", cell: (name) => shown(seen[name]) },
        { name: "It is now", cell: (name) => shown(current[name]) },
    ], fields);
}
