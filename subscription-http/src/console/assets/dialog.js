// Dialogs: each says what will happen before it is done.

import { button, el, id, replace } from "./el.js";
import { failure } from "./states.js";

// Opens a dialog. `body` are its nodes, or a function of the form that gives them. `act(form)` does what it is for; an error
// stays in the dialog, as `explain(error, form)` says. Gives true once it is done, and false if the dialog was closed.
export function dialog({ title, body, confirm, act, explain, danger }) {
    const told = el("div", { "aria-live": "polite" });
    const heading = el("h2", { id: id() }, title);
    const submit = confirm && el("button", { type: "submit", class: danger ? "danger" : "primary" }, confirm);
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
    const send = (event) => {
        event.preventDefault();
        if (submit && !form.ariaBusy) acting = run();
    };
    const form = el("form", { method: "dialog", on: { submit: send } });
    const box = el("dialog", { "aria-labelledby": heading.id }, form);
    replace(form, heading, typeof body === "function" ? body(form) : body, told,
        el("div", { class: "pager" }, submit, button(confirm ? "Close without a change" : "Close", () => box.close())));
    document.body.append(box);
    box.showModal();
    return new Promise((resolve) => box.addEventListener("close", async () => {
        box.remove();
        (before.isConnected ? before : document.querySelector("main")).focus();
        // Closed while a call is under way, the dialog still tells how it ended.
        await acting;
        resolve(done);
    }));
}

// Marks the fields that the server found faults in, with the first in focus. Gives null, as the dialog tells the error itself.
export function faultsAtFields(error, form) {
    for (const node of form.querySelectorAll(".fault")) node.remove();
    for (const box of form.elements) box.ariaInvalid = null;
    for (const { field, message } of error.body?.errors ?? []) {
        const box = form.elements[field];
        if (!box) continue;
        box.ariaInvalid = "true";
        box.after(el("small", { class: "error fault" }, message));
    }
    form.querySelector("[aria-invalid]")?.focus();
    return null;
}

// A button and its dialog: `text` says what will happen, `fields()` gives controls, `act(form)` does it, and `then(answer)`
// follows; unless it is given, the page is read again.
export function confirmButton(view, name, { text, fields = () => [], act, then = view.reload, confirm = name, danger, attributes }) {
    return button(name, async () => {
        let answer = null;
        const run = async (form) => { answer = await act(form); };
        if (await dialog({ title: name, confirm, danger, explain: (error, form) => explain(view, error, form), act: run, body: [el("p", {}, text), ...fields()] }) && !view.signal.aborted) await then(answer);
    }, attributes);
}

// After a change by somebody else the version is an old one, so that every further try is refused too.
function explain(view, error, form) {
    const reload = () => {
        form.closest("dialog").close();
        view.reload();
    };
    return faultsAtFields(error, form) ?? (error.status === 412 ? [failure(error), button("Reload the page", reload)] : null);
}
