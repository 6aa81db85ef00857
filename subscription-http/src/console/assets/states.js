// The states of everything that is loaded: loading, empty, error, no permission.

import { can } from "./api.js";
import { button, el, replace } from "./el.js";

// A part of a page that loads its data. `scope` is needed to see it; `show(data)` gives its nodes, and null if there is
// nothing, for which `empty` (a text or a function that gives nodes) says how to make one. `wayOut(error)` gives a link out of
// an error.
export function block(view, { scope, load, show, empty, name, wayOut }) {
    const node = el("div", { class: "block" });
    if (!can(scope)) {
        replace(node, noPermission(scope));
        node.reload = () => {};
        return node;
    }
    let runs = 0;
    const run = async () => {
        const turn = (runs += 1);
        const focused = node.contains(document.activeElement);
        node.setAttribute("aria-busy", "true");
        replace(node, el("p", { class: "state", role: "status" }, `Loading ${name ?? ""}…`));
        try {
            const data = await load(view.signal);
            if (turn !== runs) return;
            const nodes = show(data, run);
            replace(node, nodes ?? el("div", { class: "state" }, typeof empty === "function" ? empty(data) : el("p", {}, empty ?? "Nothing here.")));
        } catch (error) {
            if (view.signal.aborted || turn !== runs) return;
            replace(node, failure(error, run), wayOut?.(error));
        }
        node.removeAttribute("aria-busy");
        // The control that began it is gone.
        if (focused && document.activeElement === document.body) {
            node.tabIndex = -1;
            node.focus();
        }
    };
    node.reload = run;
    run();
    return node;
}

export const noPermission = (scope) =>
    el("div", { class: "state" }, el("p", {}, "Your key does not allow this: the scope ", el("code", {}, scope), " is missing."));

// An error with what helps to find it in the log, and a way to try again.
export function failure(error, retry) {
    if (error.code === undefined) console.error(error);
    const facts = [error.code, error.request_id && `request ${error.request_id}`].filter(Boolean).join(", ");
    return el("div", { class: "state error", role: "alert" },
        el("p", {}, error.message), faults(error),
        facts && el("p", {}, el("code", {}, facts)),
        retry && button("Try again", retry));
}

// The faults of single fields, if the problem has any.
function faults(error) {
    const found = error.body?.errors ?? [];
    return found.length > 0 && el("ul", {}, found.map((fault) => el("li", {}, el("code", {}, fault.field ?? fault.pointer ?? ""), ` ${fault.message ?? fault.detail ?? ""}`)));
}
