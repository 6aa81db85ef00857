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
        // A dialog that is closed while it acts gives its answer when that is over.
        let running = null;
        const run = async () => {
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
            if (!box.contains(document.activeElement)) submit.focus();
        };
        const send = (event) => { event.preventDefault(); if (submit && !submit.disabled) running = run(); };
        const form = el("form", { method: "dialog", on: { submit: send } }, heading, typeof body === "function" ? null : body, told, el("div", { class: "pager" }, submit, button(confirm ? "Close without a change" : "Close", () => box.close())));
        if (typeof body === "function") heading.after(...[body(form)].flat());
        const before = document.activeElement;
        const box = el("dialog", { "aria-labelledby": heading.id, on: { close: async () => { box.remove(); before?.focus?.(); await running; resolve(done); } } }, form);
        document.body.append(box);
        box.showModal();
    });
}
