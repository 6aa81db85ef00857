// The endpoints that events are sent to: the list, and one with its state, last tries and parked events.

import { call, can, go, href, newKey } from "./api.js";
import { confirmButton, dialog } from "./dialog.js";
import { beside, block, button, code, dotted, el, input, labelled, link, note, number, p, pager, pill, time, words } from "./el.js";
import { recordHref } from "./page-events.js";
import { column, facts, listing, section, table } from "./table.js";

export default (view) => (view.id === undefined ? list(view) : one(view));

function list(view) {
    view.title("Webhooks", can("webhooks:write") && create(view));
    view.add(section(null, listing(view, {
        path: "/webhook-endpoints", scope: "webhooks:read", caption: "Endpoints", file: "webhook-endpoints", columns,
        empty: "No endpoint yet: a URL of yours that events are sent to.",
    })));
}

// The state of an endpoint in a word.
const state = ({ enabled, stalled_since }) => (enabled ? (stalled_since ? "stalled" : "sending") : "disabled");

const REASONS = { gone: "its response was 410", failing: "its tries fail", key_missing: "the key of its secret is missing: rotate the secret, then enable it", parked_full: "100 events are parked" };

// The reason for the state of an endpoint, if it has one.
function reason({ enabled, disabled_reason, stall_reason }) {
    const name = enabled ? stall_reason : disabled_reason;
    return REASONS[name] ?? words(name ?? "");
}

const columns = [
    column("Endpoint", "url", (url, { id, description }) => [link(href(["webhooks", id]), url), beside(description)]),
    column("Id", "id"),
    { name: "State", cell: (row) => [pill(state(row)), beside(reason(row))], csv: state },
    { name: "Types", cell: (row) => row.types.map((type) => el("div", {}, dotted(type))), csv: (row) => row.types.join(" ") },
    column("Behind", "behind", number), column("Parked", "parked", number), column("Given up", "given_up", number), column("Last success", "last_success_at", time),
];

// The fields of an endpoint in a form, and their values in the form that the API accepts.
const fields = (endpoint) => [
    input("URL", { name: "url", type: "url", required: true, maxlength: 2048, value: endpoint?.url ?? "" }),
    input("Description", { name: "description", maxlength: 200, value: endpoint?.description ?? "" }),
    labelled("Types of events", el("textarea", { name: "types", required: true, spellcheck: "false", value: (endpoint?.types ?? ["*"]).join("\n") }),
        "One on each line, such as payment.*; * is all of plans, subscriptions and payments."),
];

function values(form) {
    const { description, types, ...others } = Object.fromEntries(new FormData(form));
    return { ...others, description: description.trim(), types: types.split(/[\s,]+/).filter(Boolean) };
}

// All tries of a dialog have one key: after a lost response, no second endpoint is created.
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

// Shows a secret once. After the dialog is closed, the page no longer contains the secret.
function showSecret(secret) {
    const box = el("input", { readonly: true, value: secret, spellcheck: "false", autocomplete: "off" });
    const told = el("span", { role: "status" });
    const copy = async () => {
        box.select();
        told.textContent = (await navigator.clipboard?.writeText(secret).then(() => "Copied.", () => null)) ?? "It is selected: copy it by the keyboard.";
    };
    return dialog({
        title: "The secret of this endpoint", body: [
            p("It is shown this once. The receiver checks the signature of each delivery with it."),
            labelled("Secret", box), pager(button("Copy", copy), told),
        ],
    });
}

function one(view) {
    const path = `/webhook-endpoints/${encodeURIComponent(view.id)}`;
    view.title("Webhook endpoint");
    const node = block(view, { scope: "webhooks:read", name: "the endpoint", load: (signal) => call("GET", path, { signal }), show: ({ data, etag }) => shown(view, path, data, etag) });
    node.classList.add("page");
    view.add(node);
}

function shown(view, path, endpoint, etag) {
    const { recent, enabled, missed_up_to } = endpoint;
    const at = (name, field, ...more) => [name, endpoint[field] ? [time(endpoint[field]), ...more] : undefined];
    return [
        section(null,
            facts([
                ["URL", code(endpoint.url)], ["Description", endpoint.description || "–"],
                ["State", pill(state(endpoint)), ` ${reason(endpoint)}`],
                at("Since", enabled ? "stalled_since" : "disabled_at"),
                ["Types", endpoint.types.join(", ")],
                ["Behind", `${number(endpoint.behind)}, sent up to event ${number(endpoint.cursor)}`],
                ["Parked, given up", `${number(endpoint.parked)}, ${number(endpoint.given_up)}`],
                at("Last success", "last_success_at"),
                at("Failing since", "failing_since", "; after five days it is disabled"),
                at("Next try of a failed event", "next_attempt_at"),
                at("Both secrets sign until", "previous_secret_until"),
                ["Missed", missed_up_to === null ? undefined : `Events up to ${number(missed_up_to)} were deleted before they were delivered.`],
            ]),
            pager(can("webhooks:write") && actions(view, path, endpoint, etag), button("Refresh", view.reload))),
        section("Last tries", recent.length ? table("The last 20 tries, newest first", TRIES, recent) : note("Nothing was sent yet.")),
        section("Parked events", listing(view, {
            path: `${path}/parked`, scope: "webhooks:read", caption: "Events that failed, in the order of the feed", file: "parked-events", columns: PARKED, empty: "No event is parked.",
        })),
    ];
}

const outcome = ({ outcome, status }) => [pill(outcome), ` ${status ?? ""}`];

const TRIES = [
    column("Event", "type", (type, { sequence }) => link(href("events", { before: sequence + 1 }), ...dotted(type))),
    { name: "Outcome", cell: outcome },
    column("Try", "attempt", number), column("Milliseconds", "duration_ms", number), column("Sequence", "sequence", number), column("At", "at", time),
];

const PARKED = [
    { name: "Event", cell: ({ event }) => (event ? link(recordHref(event), ...dotted(event.type)) : "needs users:read"), csv: (row) => row.event?.type },
    column("Sequence", "sequence", number), column("State", "state", pill), column("Tries", "attempts", number),
    { name: "Last outcome", cell: ({ last }) => (last ? outcome(last) : "–"), csv: (row) => row.last?.outcome },
    column("First failed", "first_failed_at", time), column("Next try", "next_attempt_at", time),
];

function actions(view, path, endpoint, etag) {
    const { enabled, behind, parked, given_up } = endpoint;
    const put = (body) => call("PUT", path, { body, ifMatch: etag });
    const post = (verb, body) => call("POST", `${path}/${verb}`, { body });
    const ask = (name, text, act, more) => confirmButton(view, name, { text, act, ...more });
    return [
        ask("Ping", "One webhook.ping is sent now. A success ends a stall.", () => post("ping"), { then: async ({ data }) => {
            await dialog({ title: "The result of the ping", body: p(outcome(data), ` after ${number(data.duration_ms)} ms`) });
            view.reload();
        } }),
        ask("Edit", "Events that are being sent just now, up to 200, may arrive twice.", (form) => put(values(form)), { fields: () => fields(endpoint), confirm: "Save" }),
        enabled
            ? ask("Disable", "Nothing is sent to it. Once enabled, it continues where it stopped, as far as events are kept.", () => put({ enabled: false }), { danger: true })
            : ask("Enable", `It continues where it stopped: ${number(behind)} events ago.`, () => put({ enabled: true })),
        parked + given_up > 0 && ask("Resend all", `All ${number(parked + given_up)} parked and given-up events are sent at once, with ten new tries.`, () => post("resend", { all: true })),
        ask("Rewind", `Everything since a time is sent, again if it was sent before.${behind ? ` It is ${number(behind)} events behind: those before that time are never sent.` : ""}`, (form) => post("rewind", { since: new Date(`${form.elements.since.value}Z`) }), {
            danger: behind > 0, fields: () => [input("Since, in UTC", { name: "since", type: "datetime-local", step: 1, required: true })],
        }),
        ask("Rotate secret", "A new secret is made and shown once. Until the old one ends, each delivery has both signatures. Was it stolen, let it end at once, with 0 hours.",
            (form) => post("rotate-secret", { overlap_hours: Number(form.elements.hours.value) }), {
                fields: () => [input("Hours that the old secret still signs", { name: "hours", type: "number", min: 0, max: 72, required: true, value: "24" })],
                then: async ({ data }) => {
                    await showSecret(data.secret);
                    view.reload();
                },
            }),
        ask("Delete", "Its state, its parked events and its secret are deleted. To stop it for a while, disable it.",
            () => call("DELETE", path, { ifMatch: etag }), { danger: true, then: () => go("webhooks") }),
    ];
}
