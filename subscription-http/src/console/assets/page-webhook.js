// One endpoint: its state, its last tries, its parked events, and the calls that manage it.

import { call, can } from "./api.js";
import { confirmButton, dialog } from "./dialog.js";
import { button, el, labelled, link } from "./el.js";
import { recordHref } from "./page-events.js";
import { fields, reason, showSecret, state, values } from "./page-webhooks.js";
import { go, href } from "./route.js";
import { block } from "./states.js";
import { column, facts, listing, section, table } from "./table.js";
import { dotted, number, pill, time } from "./words.js";

export default function (view) {
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
                ["URL", el("code", {}, endpoint.url)], ["Description", endpoint.description || "–"],
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
            el("div", { class: "pager" }, can("webhooks:write") && actions(view, path, endpoint, etag), button("Refresh", view.reload))),
        section("Last tries", recent.length ? table("The last 20 tries, newest first", TRIES, recent) : el("p", { class: "state" }, "Nothing was sent yet.")),
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

const input = (label, attributes) => labelled(label, el("input", attributes));

function actions(view, path, endpoint, etag) {
    const { enabled, behind, parked, given_up } = endpoint;
    const put = (body) => call("PUT", path, { body, ifMatch: etag });
    const post = (verb, body) => call("POST", `${path}/${verb}`, { body });
    const ask = (name, text, act, more) => confirmButton(view, name, { text, act, ...more });
    return [
        ask("Ping", "One webhook.ping is sent now. A success ends a stall.", () => post("ping"), { then: async ({ data }) => {
            await dialog({ title: "The answer to the ping", body: el("p", {}, outcome(data), ` after ${number(data.duration_ms)} ms`) });
            view.reload();
        } }),
        ask("Edit", "Events that are being sent just now, up to 200, may arrive twice.", (form) => put(values(form)), { fields: () => fields(endpoint), confirm: "Save" }),
        enabled
            ? ask("Disable", "Nothing is sent to it. Once enabled, it goes on where it stopped, as far as events are kept.", () => put({ enabled: false }), { danger: true })
            : ask("Enable", `It goes on where it stopped: ${number(behind)} events ago.`, () => put({ enabled: true })),
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
