// Dialogs: a dialog says what an action will do before it is done, how the action ended, and what its errors mean.

import { call, get, href, newKey } from "./api.js";
import { button, el, failure, form as element, id, link, p, pager, replace, scheduledText, sentence, submit, words } from "./el.js";
import { table } from "./table.js";

// Opens a dialog. `body` are its nodes, or a function of the form that gives them. `act(form)` does what it is for; an error
// stays in the dialog, as `explain(error, form)` says. Gives true once it is done, and false if the dialog was closed.
export function dialog({ title, body, confirm, act, explain, danger }) {
    const told = el("div", { "aria-live": "polite" });
    const heading = el("h2", { id: id() }, title);
    const before = document.activeElement;
    let done = false;
    let acting = null;
    const run = async () => {
        form.ariaBusy = "true";
        replace(told);
        try {
            await act(form);
            done = true;
            box.close();
        } catch (error) {
            replace(told, explain?.(error, form) ?? failure(error));
            if (!form.querySelector("[aria-invalid]")) told.scrollIntoView({ block: "nearest" });
        }
        form.ariaBusy = null;
    };
    const form = element({ method: "dialog" }, () => { if (confirm && !form.ariaBusy) acting = run(); });
    const box = el("dialog", { "aria-labelledby": heading.id }, form);
    replace(form, heading, typeof body === "function" ? body(form) : body, told,
        pager(confirm && submit(confirm, { class: danger ? "danger" : "primary" }), button(confirm ? "Close without a change" : "Close", () => box.close())));
    document.body.append(box);
    box.showModal();
    return new Promise((resolve) => box.addEventListener("close", async () => {
        box.remove();
        (before.isConnected ? before : document.querySelector("main")).focus();
        // If the dialog was closed while the call was running, the result of the call is still shown.
        await acting;
        resolve(done);
    }));
}

// Marks the fields in which the server found faults, and sets the focus on the first of them.
function faultsAtFields(error, form) {
    for (const node of form.querySelectorAll(".fault")) node.remove();
    for (const box of form.elements) box.ariaInvalid = null;
    for (const { field, message } of error.body?.errors ?? []) {
        const box = form.elements[field];
        if (!box) continue;
        box.ariaInvalid = "true";
        box.after(el("small", { class: "error fault" }, message));
    }
    form.querySelector("[aria-invalid]")?.focus();
}

// A button and its dialog: `text` says what will happen, `fields()` gives controls, `act(form)` does it, and `then(answer)`
// follows; unless it is given, the page is read again.
export function confirmButton(view, name, { title = name, text, fields, act, then = view.reload, confirm = name, danger, attributes, explain: told = (error, form) => explain(error, form, { view }) }) {
    return button(name, async () => {
        let answer;
        const run = async (form) => { answer = await act(form); };
        if (await dialog({ title, confirm, danger, explain: told, act: run, body: [text && p(text), fields?.()] }) && !view.signal.aborted) await then(answer);
    }, attributes);
}

// Opens a dialog for an action. The button of the dialog is named like its `title`. After the action the page is read again and shows the text of `done`.
export async function ask(context, { title, done, ...options }) {
    const told = () => document.getElementById("told") ?? el("p");
    told().textContent = "";
    if (!(await dialog({ title, confirm: title, explain: (error, form) => explain(error, form, context), ...options }))) return;
    // Another page is shown by now, so this page is not read again.
    if (context.view.signal.aborted) return;
    // The page is out of date until it is read again.
    context.view.root.inert = true;
    await context.view.reload();
    told().textContent = done();
    told().focus();
}

// A function that sends a request with the version of the record that was seen. If the same request is sent again, it has the same Idempotency-Key, so it is done once.
export function once() {
    let [last, key] = [];
    return async ({ record, etag, path }, method, end, body) => {
        const text = JSON.stringify([path, end, body]);
        if (text !== last) [last, key] = [text, newKey()];
        try {
            return (await call(method, path + end, { body, ifMatch: etag, headers: method === "POST" && { "idempotency-key": key } })).data;
        } catch (error) {
            if (error.code === "unreachable") error.message += " Press again: if it was done already, it is not done twice.";
            if (error.status === 412) Object.assign(error, { seen: record, current: await get(path).catch(() => null) });
            throw error;
        }
    };
}

// Describes a record after an action in words.
export function result({ record, plans }, answer) {
    if (answer.version === record.version) return "Nothing has changed: it was so already.";
    return `Done: ${sentence(answer)}${answer.scheduled_change ? `; ${scheduledText(answer, plans)}` : ""}.`;
}

// Advice for errors whose own text gives no advice.
const ADVICE = {
    payment_open: "Let it be paid first, or let the change wait for the period's end.",
    change_scheduled: "Drop the scheduled change first.",
    precondition_failed: "It was changed since you opened this page, by somebody or by the clock. Nothing was done.",
    plan_in_use: "Withdraw it instead: then nobody can subscribe to it any more.",
};

// Shows an error in a dialog, with what to do about it. If somebody else has changed the record, every further try would be refused too.
export function explain(error, form, { view }) {
    faultsAtFields(error, form);
    const reload = () => {
        form.closest("dialog").close();
        view.reload();
    };
    return [
        failure(error),
        ADVICE[error.code] && p(ADVICE[error.code]),
        error.code === "already_subscribed" && p(link(href(["subscriptions", error.body.holder]), "Show the other subscription")),
        error.current && comparison(error.seen, error.current),
        [404, 409, 412].includes(error.status) && p(button("Reload the page", reload)),
    ];
}

// The fields that differ between the version that was seen and the present version.
export function comparison(seen, current) {
    const shown = (value = null) => (typeof value === "string" ? value : value === null ? "–" : JSON.stringify(value));
    const fields = Object.keys(current).filter((name) => name !== "updated_at" && shown(seen[name]) !== shown(current[name]));
    return table("Differences", [
        { name: "Field", cell: words },
        { name: "You saw", cell: (name) => shown(seen[name]) },
        { name: "It is now", cell: (name) => shown(current[name]) },
    ], fields);
}
