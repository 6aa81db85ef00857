// The endpoints that events are sent to.

import { call, can, newKey } from "./api.js";
import { confirmButton, dialog } from "./dialog.js";
import { button, el, labelled, link } from "./el.js";
import { go, href } from "./route.js";
import { column, listing, section } from "./table.js";
import { dotted, number, pill, time, words } from "./words.js";

export default function (view) {
    view.title("Webhooks", can("webhooks:write") && create(view));
    view.add(section(null, listing(view, {
        path: "/webhook-endpoints", scope: "webhooks:read", caption: "Endpoints", file: "webhook-endpoints", columns,
        empty: "No endpoint yet: a URL of yours that events are sent to.",
    })));
}

// The state in a word.
export const state = ({ enabled, stalled_since }) => (enabled ? (stalled_since ? "stalled" : "sending") : "disabled");

const REASONS = { gone: "it answered 410", failing: "its tries fail", key_missing: "the key of its secret is missing: rotate the secret, then enable it", parked_full: "100 events are parked" };

// The reason for a state, or nothing.
export function reason({ enabled, disabled_reason, stall_reason }) {
    const name = enabled ? stall_reason : disabled_reason;
    return REASONS[name] ?? words(name ?? "");
}

const beside = (text) => text && el("div", {}, el("small", {}, text));

const columns = [
    column("Endpoint", "url", (url, { id, description }) => [link(href(["webhooks", id]), url), beside(description)]),
    { name: "Id", csv: (row) => row.id },
    { name: "State", cell: (row) => [pill(state(row)), beside(reason(row))], csv: state },
    { name: "Types", cell: (row) => row.types.map((type) => el("div", {}, dotted(type))), csv: (row) => row.types.join(" ") },
    column("Behind", "behind", number), column("Parked", "parked", number), column("Given up", "given_up", number), column("Last success", "last_success_at", time),
];

// The fields of an endpoint, and their values as the API takes them.
export const fields = (endpoint) => [
    labelled("URL", el("input", { name: "url", type: "url", required: true, maxlength: 2048, value: endpoint?.url ?? "" })),
    labelled("Description", el("input", { name: "description", maxlength: 200, value: endpoint?.description ?? "" })),
    labelled("Types of events", el("textarea", { name: "types", required: true, spellcheck: "false", value: (endpoint?.types ?? ["*"]).join("\n") }),
        "One on each line, such as payment.*; * is all of plans, subscriptions and payments."),
];

export function values(form) {
    const { description, types, ...others } = Object.fromEntries(new FormData(form));
    return { ...others, description: description.trim(), types: types.split(/[\s,]+/).filter(Boolean) };
}

// All tries of a dialog have one key: an answer that was lost makes no second endpoint.
const idempotencyKey = () => el("input", { type: "hidden", name: "key", value: newKey() });

function create(view) {
    return confirmButton(view, "New endpoint", {
        text: "Each new event that fits is sent to the URL, signed with a secret that is shown after this dialog. For older events, rewind it.", confirm: "Create",
        fields: () => [...fields(), idempotencyKey()],
        act: (form) => {
            const { key, ...body } = values(form);
            return call("POST", "/webhook-endpoints", { body, headers: { "idempotency-key": key } });
        },
        then: async ({ data: { id, secret } }) => {
            await showSecret(secret);
            go(["webhooks", id]);
        },
    });
}

// Shows a secret once. Closed, the dialog leaves nothing of it in the page.
export function showSecret(secret) {
    const box = el("input", { readonly: true, value: secret, spellcheck: "false", autocomplete: "off" });
    const told = el("span", { role: "status" });
    const copy = async () => {
        box.select();
        told.textContent = (await navigator.clipboard?.writeText(secret).then(() => "Copied.", () => null)) ?? "It is selected: copy it by the keyboard.";
    };
    return dialog({
        title: "The secret of this endpoint", body: [
            el("p", {}, "It is shown this once. The receiver checks the signature of each delivery with it."),
            labelled("Secret", box), el("div", { class: "pager" }, button("Copy", copy), told),
        ],
    });
}
