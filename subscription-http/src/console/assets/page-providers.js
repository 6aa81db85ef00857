// Payment providers: their sources, and the events that they sent.

import { call, can, get, href } from "./api.js";
import { confirmButton } from "./dialog.js";
import { beside, code, date, dotted, el, input, labelled, link, number, p, pill, select, short, time, words } from "./el.js";
import { column, facts, filters, listing, plain, section } from "./table.js";

const STATES = ["pending", "waiting", "failed", "applied", "same", "ignored"];

// The reasons of events that a person must resolve, and what to do about each.
const ADVICE = {
    provider_unavailable: "The provider or the key fails: see the log.", unknown_customer: "Link the customer to a user.",
    unknown_plan: "No plan has this price or variant: create one that has it in `variants`.", ambiguous_plan: "Several plans have this price or variant.", managed_by_clock: "This server bills the subscription: decide who bills.",
    other_mode: "Test data for live data, or the reverse.", settled_differs: "A settled payment changed at the provider, and stays here.",
};

export default async function (view) {
    view.title("Providers");
    const sources = can("providers:read") ? (await get("/providers", null, view.signal)).data : [];
    const names = sources.map(({ source }) => source);
    const reasons = new Set(sources.flatMap(({ events }) => events.map(({ reason }) => reason)).filter(Boolean));
    const fields = [
        { name: "source", label: "Source", kind: "select", options: names },
        { name: "state", label: "State", kind: "select", options: STATES },
        { name: "reason", label: "Reason", kind: "select", options: [...reasons].map((reason) => [reason, words(reason)]) },
        { name: "object", label: "Id of the object", kind: "search" },
    ];
    const query = fields.map(({ name }) => [name, view.query.get(name)?.trim()]).filter(([, value]) => value);
    view.add(
        el("div", { class: "grid" }, sources.map((source) => section(source.source, card(source)))),
        filters(view, fields),
        section("Events of providers", can("providers:write") && p(linkButton(view, "Link a customer", names, {})), listing(view, {
            path: "/provider-events", query, scope: "providers:read", caption: "Events", file: "provider-events", columns: columns(view, names),
            empty: () => [p("No event fits. "), link(href("providers"), "Show all")],
        })),
    );
}

function card({ source, kind, live, last_event_at, events, last_sync, running_sync }) {
    const standing = ({ state, reason, count }) => el("li", {}, link(href("providers", { source, state, reason }), `${number(count)} ${words(state)}${reason ? `: ${words(reason)}` : ""}`));
    return [
        facts([
            ["Kind", words(kind)], ["Data", live ? "live" : "test"],
            ["Last event", last_event_at ? time(last_event_at) : ["none yet; point the webhook to ", code(`/provider-webhooks/${source}`)]],
            ["Last sync", time(last_sync?.finished_at)],
            ["Running sync", running_sync ? ["since ", time(running_sync.started_at)] : undefined],
        ]),
        events.length > 0 && el("ul", {}, events.map(standing)),
    ];
}

const columns = (view, names) => [
    { name: "Object", cell: ({ source, object, key }) => link(href("providers", { source, object: object?.id }), object?.id ?? key), csv: (row) => row.object?.id },
    column("Event", "event_type", (type, { source }) => [dotted(type ?? "a sync"), beside(source)]),
    column("Source", "source"),
    column("State", "state", (state, { reason, path }) => [pill(state), reason && [" ", words(reason), beside(ADVICE[reason], path && ` At ${path}.`)]]),
    column("Reason", "reason"),
    column("Customer", "customer", plain),
    column("Subscription", "subscription_id", (id) => (id ? link(href(["subscriptions", id]), short(id)) : "–")),
    column("Received", "received_at", date),
    column("Tries", "attempts", (tries, { next_attempt_at }) => [number(tries), next_attempt_at && beside("next ", date(next_attempt_at))]),
    can("providers:write") && { name: "Action", cell: (row) => [replay(view, row), row.reason === "unknown_customer" && [" ", linkButton(view, "Link", names, row, { "aria-label": `Link the customer of ${row.key}` })]] },
].filter(Boolean);

const replay = (view, { id, key, source, object }) => confirmButton(view, "Replay", {
    attributes: { "aria-label": `Replay ${key}` }, text: `The object ${object?.id ?? key} is read from ${source} now, and applied here.`,
    act: () => call("POST", `/provider-events/${encodeURIComponent(id)}/replay`),
});

function linkButton(view, name, names, { source, customer }, attributes) {
    const box = (name, label, value = "") => input(label, { name, required: true, value, spellcheck: "false" });
    return confirmButton(view, name, {
        attributes, confirm: "Link", text: "Events of the customer that wait are tried at once. The link cannot be changed here.",
        fields: () => [labelled("Source", select("source", names, source)), box("customer", "Customer at the provider", customer ?? ""), box("user_id", "Id of the user here")],
        act: (form) => call("POST", "/provider-links", { body: Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()])) }),
    });
}
