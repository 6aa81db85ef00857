// Dialogs: each says what will happen before it is done.

import { button, el, id, replace } from "./el.js";
import { failure } from "./states.js";

// Opens a dialog. `body` are its nodes, or a function of the form that gives them. `act(form)` does what it is for; an
// error stays in the dialog, with the nodes of `explain(error)` if it gives any. Gives true once it is done, and false if the
// dialog was closed.
export function dialog({ title, body, confirm, act, explain = () => null, danger = false }) {
    return new Promise((resolve) => {
        const told = el("div", { "aria-live": "polite" });
        const heading = el("h2", { id: id() }, title);
        const submit = confirm && el("button", { type: "submit", class: danger ? "danger" : "primary" }, confirm);
        let done = false;
        let acting = null;
        const run = async () => {
            const focused = document.activeElement;
            submit.disabled = true;
            replace(told);
            try {
                await act(form);
                done = true;
                box.close();
            } catch (error) {
                replace(told, explain(error, form) ?? failure(error));
                told.scrollIntoView({ block: "nearest" });
            }
            submit.disabled = false;
            // A button that is disabled loses the focus.
            if (!done && document.activeElement === document.body) focused?.focus?.();
        };
        const form = el("form", { method: "dialog", on: { submit: (event) => {
            event.preventDefault();
            if (submit && !submit.disabled) acting = run();
        } } });
        replace(form, heading, typeof body === "function" ? body(form) : body, told,
            el("div", { class: "pager" }, submit, button(confirm ? "Close without a change" : "Close", () => box.close())));
        const before = document.activeElement;
        // Closed while a call is under way, the dialog still tells how it ended.
        const close = async () => {
            box.remove();
            (before?.isConnected ? before : document.querySelector("main"))?.focus?.();
            await acting;
            resolve(done);
        };
        const box = el("dialog", { "aria-labelledby": heading.id, on: { close } }, form);
        document.body.append(box);
        box.showModal();
    });
}

// Shows the faults that the server found at the fields of the form, with the first in focus. Gives null if there are none.
export function faultsAtFields(error, form) {
    for (const node of form.querySelectorAll(".fault")) node.remove();
    for (const box of form.querySelectorAll("[aria-invalid]")) for (const name of ["aria-invalid", "aria-describedby"]) box.removeAttribute(name);
    const left = (error.body?.errors ?? []).filter(({ field, message }) => {
        const box = form.elements[field];
        if (!box) return true;
        const text = el("small", { class: "error fault", id: id() }, message);
        box.setAttribute("aria-invalid", "true");
        box.setAttribute("aria-describedby", text.id);
        box.after(text);
        return false;
    });
    const wrong = form.querySelectorAll("[aria-invalid]");
    if (!wrong.length) return null;
    wrong[0].focus();
    return el("p", { class: "error", role: "alert" }, `${wrong.length === 1 ? "One field is" : `${wrong.length} fields are`} not right.`, left.map(({ field, message }) => ` ${field} ${message}.`));
}
