// How an action is sent, how its result is told, and what its errors mean.

import { call, get, newKey } from "./api.js";
import { dialog } from "./dialog.js";
import { button, el, link, p } from "./el.js";
import { href } from "./route.js";
import { failure } from "./states.js";
import { table } from "./table.js";
import { scheduledText, sentence, words } from "./words.js";

// Asks in a dialog, whose button is named like its `title`. Once it is done, the page is read again and tells what `done` says.
export async function ask(context, { title, done, ...options }) {
    const told = () => document.getElementById("told") ?? el("p");
    told().textContent = "";
    if (!(await dialog({ title, confirm: title, explain: (error, form) => explain(error, form, context), ...options }))) return;
    // Another page is shown by now.
    if (context.view.signal.aborted) return;
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
        if (text !== last) [last, key] = [text, newKey()];
        try {
            return (await call(method, path + end, { body, ifMatch: etag, headers: method === "POST" && { "idempotency-key": key } })).data;
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

// Advice where the error's own text gives none.
const ADVICE = {
    payment_open: "Let it be paid first, or let the change wait for the period's end.",
    change_scheduled: "Drop the scheduled change first.",
    precondition_failed: "It was changed since you opened this page, by somebody or by the clock. Nothing was done.",
    unreachable: "Press again: if it was done already, it is not done twice.",
};

// An error in a dialog, with what to do about it.
export function explain(error, form, { view }) {
    const reload = () => {
        form.closest("dialog").close();
        view.reload();
    };
    return [
        failure(error),
        ADVICE[error.code] && p(ADVICE[error.code]),
        error.body?.holder && p(link(href(["subscriptions", error.body.holder]), "Show the other subscription")),
        error.current && comparison(error.seen, error.current),
        [404, 409, 412].includes(error.status) && p(button("Reload the page", reload)),
    ];
}

// The fields that differ between the version that was seen and the present one.
export function comparison(seen, current) {
    const shown = (value = null) => (typeof value === "string" ? value : value === null ? "–" : JSON.stringify(value));
    const fields = Object.keys(current).filter((name) => name !== "updated_at" && shown(seen[name]) !== shown(current[name]));
    return table("What is different", [
        { name: "Field", cell: words },
        { name: "You saw", cell: (name) => shown(seen[name]) },
        { name: "It is now", cell: (name) => shown(current[name]) },
    ], fields);
}
