// The states of everything that is loaded: loading, empty, error, no permission.

import { can } from "./api.js";
import { button, code, el, p, replace } from "./el.js";

// A part of a page that loads its data. `scope` is needed to see it; `show(data, reload)` gives its nodes, and null if there is
// nothing, for which `empty` is a text or gives nodes. `wayOut(error)` gives a link out of an error.
export function block(view, { scope, load, show, empty, name, wayOut }) {
    const node = el("div", { class: "block" });
    const run = async () => {
        const focused = node.contains(document.activeElement);
        node.ariaBusy = "true";
        replace(node, el("p", { class: "state", role: "status" }, `Loading ${name}…`));
        try {
            const data = await load(view.signal);
            replace(node, show(data, run) ?? el("div", { class: "state" }, typeof empty === "function" ? empty(data) : p(empty)));
        } catch (error) {
            if (view.signal.aborted) return;
            replace(node, failure(error, run), wayOut?.(error));
        }
        node.ariaBusy = null;
        // The control that began it is gone.
        if (focused && document.activeElement === document.body) {
            node.tabIndex = -1;
            node.focus();
        }
    };
    if (can(scope)) run();
    else replace(node, noPermission(scope));
    return node;
}

export const noPermission = (scope) => el("div", { class: "state" }, p("Your key does not allow this: the scope ", code(scope), " is missing."));

// An error with the faults of single fields, what helps to find it in the log, and a way to try again.
export function failure(error, retry) {
    if (error.code === undefined) console.error(error);
    const faults = error.body?.errors ?? [];
    return el("div", { class: "state error", role: "alert" },
        p(faults.length ? `${faults.length === 1 ? "One field is" : `${faults.length} fields are`} not right:` : error.message),
        faults.length > 0 && el("ul", {}, faults.map(({ field, message }) => el("li", {}, code(field), ` ${message}`))),
        p(code([error.code ?? error.name, error.request_id && `request ${error.request_id}`].filter(Boolean).join(", "))),
        retry && button("Try again", retry));
}
