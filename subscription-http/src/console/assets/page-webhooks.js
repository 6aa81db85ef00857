// The endpoints that events are sent to.

import { call, can } from "./api.js";
import { dialog, faultsAtFields } from "./dialog.js";
import { button, el, labelled, link, select } from "./el.js";
import { go, href } from "./route.js";
import { listing, section } from "./table.js";
import { dotted, number, pill, time } from "./words.js";

export default function (view) {
    view.title("Webhooks", can("webhooks:write") && button("New endpoint", create));
    view.add(section(null, listing(view, {
        path: "/webhook-endpoints", scope: "webhooks:read", caption: "Endpoints", file: "webhook-endpoints", columns,
        empty: () => el("p", {}, "No endpoint yet. An endpoint is a URL of yours that each event is sent to, signed, until it is accepted."),
    })));
}

// The state in a word: sending, stalled or disabled.
export const state = ({ enabled, stalled_since }) => (enabled ? (stalled_since ? "stalled" : "sending") : "disabled");

const WHY = {
    by_caller: "by a call", gone: "it answered 410, Gone", failing: "it accepted nothing for five days", key_missing: "the key of its secret is missing: rotate the secret, then enable it", imported: "it came with an import",
};
const STALLS = { failing: "tries fail one after the other; only the oldest event is tried", parked_full: "100 events are parked; only the oldest event is tried" };

// The reason for a state, or null.
export const reason = ({ enabled, disabled_reason, stall_reason }) => (enabled ? STALLS[stall_reason] : WHY[disabled_reason]) ?? null;

const columns = [
    { name: "Endpoint", cell: (row) => [link(href(["webhooks", row.id]), row.url.length > 120 ? `${row.url.slice(0, 120)}…` : row.url), row.description && el("div", {}, el("small", {}, row.description))], csv: (row) => row.url },
    { name: "Id", csv: (row) => row.id },
    { name: "State", cell: (row) => [pill(state(row)), reason(row) && el("div", {}, el("small", {}, reason(row)))], csv: state },
    { name: "Types", cell: (row) => row.types.map((type) => el("div", {}, dotted(type))), csv: (row) => row.types.join(" ") },
    { name: "Behind", kind: "number", cell: (row) => number(row.behind), csv: (row) => row.behind },
    { name: "Parked", kind: "number", cell: (row) => number(row.parked), csv: (row) => row.parked },
    { name: "Given up", kind: "number", cell: (row) => number(row.given_up), csv: (row) => row.given_up },
    { name: "Last success", cell: (row) => time(row.last_success_at), csv: (row) => row.last_success_at },
];

// The fields of an endpoint, and their values as the API takes them.
export const fields = (endpoint) => [
    labelled("URL", el("input", { name: "url", type: "url", required: true, maxlength: 2048, value: endpoint?.url ?? "" }), "An https address; in development it may also be on this machine without TLS."),
    labelled("Description", el("input", { name: "description", maxlength: 200, value: endpoint?.description ?? "" }), "For people."),
    labelled("Types of events", el("textarea", { name: "types", required: true, spellcheck: "false", value: (endpoint?.types ?? ["*"]).join("\n") }),
        "One on each line: subscription.status_changed, payment.*, subscription.status_changed.expired, or * for all of plans, subscriptions and payments."),
];

export function values(form) {
    const { url, description, types } = Object.fromEntries(new FormData(form));
    return { url: url.trim(), description: description.trim(), types: types.split(/[\s,]+/).filter(Boolean) };
}

async function create() {
    // The same key in each try: an answer that was lost makes no second endpoint.
    const headers = { "idempotency-key": crypto.getRandomValues(new Uint32Array(4)).join("-") };
    let made = null;
    const done = await dialog({
        title: "New endpoint", confirm: "Create", explain: faultsAtFields, act: async (form) => {
            const { from } = Object.fromEntries(new FormData(form));
            made = (await call("POST", "/webhook-endpoints", { body: { ...values(form), from }, headers })).data;
        },
        body: [
            el("p", {}, "Each event that fits is sent to the URL by POST, signed with a secret that is shown once, after this dialog."), ...fields(),
            labelled("Begin with", select("from", [["now", "the next event"], ["start", "the oldest event that is kept"]], "now")),
        ],
    });
    if (!done) return;
    const { id, secret } = made;
    made = null;
    await showSecret(secret);
    go(["webhooks", id]);
}

// Shows a secret once. Closed, the dialog leaves nothing of it in the page.
export function showSecret(secret) {
    if (!secret) return dialog({ title: "The secret was shown before", body: el("p", {}, "Rotate the secret to get a new one.") });
    const box = el("input", { readonly: true, value: secret, spellcheck: "false", autocomplete: "off", on: { focus: () => box.select() } });
    const told = el("span", { role: "status" });
    const copy = async () => {
        try {
            await navigator.clipboard.writeText(box.value);
            told.textContent = "Copied.";
        } catch {
            box.focus();
            told.textContent = "The browser does not allow it. The text is selected: copy it by the keyboard.";
        }
    };
    return dialog({
        title: "The secret of this endpoint", body: [
            el("p", {}, "It is shown this once. Store it as you store a password: the receiver checks the signature of each delivery with it."),
            labelled("Secret", box), el("div", { class: "pager" }, button("Copy", copy), told),
        ],
    });
}
