// Payment providers: their sources, and the events that they sent.

import { call, can, get } from "./api.js";
import { dialog, faultsAtFields } from "./dialog.js";
import { button, el, labelled, link, select } from "./el.js";
import { href } from "./route.js";
import { facts, filters, listing, section } from "./table.js";
import { date, dotted, number, pill, short, time, words } from "./words.js";

const STATES = ["pending", "waiting", "failed", "applied", "same", "ignored"];

// The reasons of states, and what to do.
const REASONS = {
    provider_unavailable: "The provider or the key fails: see the log.", unknown_customer: "Link the customer to a user.",
    customer_conflict: "The checkout names another user than the customer is linked to.", unknown_plan: "No plan has this price or variant: add it to a plan.",
    ambiguous_plan: "Several plans have this price or variant.", managed_by_clock: "This server bills the subscription: decide who bills.",
    currency_unverified: "The digits of the currency could not be verified.", not_found: "The provider does not have the object.",
    other_mode: "It is test data for live data, or the other way round.", not_a_subscription: "It concerns no subscription.", zero_amount: "The amount is 0.",
    detached: "The subscription was released from the provider.", unreadable: "A field is missing or has an unknown value.",
    settled_differs: "The amount of a settled payment changed at the provider; the record here stays.",
};

export default async function (view) {
    view.title("Providers");
    const sources = can("providers:read") ? (await get("/providers", null, view.signal)).data : [];
    const names = sources.map(({ source }) => source);
    const query = ["source", "state", "reason", "object"].map((name) => [name, (view.query.get(name) ?? "").trim()]).filter(([, value]) => value);
    view.add(
        el("div", { class: "grid" }, sources.map((source) => section(source.source, card(source)))),
        filters(view, [
            { name: "source", label: "Source", kind: "select", options: names },
            { name: "state", label: "State", kind: "select", options: STATES },
            { name: "reason", label: "Reason", kind: "select", options: Object.keys(REASONS).map((reason) => [reason, words(reason)]) },
            { name: "object", label: "Id of the object", kind: "search", attributes: { spellcheck: "false", autocomplete: "off" } },
        ]),
        section("Events of providers", can("providers:write") && el("p", {}, button("Link a customer", () => linkCustomer(view, names, {}))), listing(view, {
            path: "/provider-events", query, scope: "providers:read", caption: "Events", file: "provider-events", columns: columns(view, names),
            empty: () => [el("p", {}, "No event fits. "), link(href("providers"), "Show all")],
        })),
    );
}

const counts = ({ counts }) => Object.entries(counts).map(([name, count]) => `${number(count)} ${name}`).join(", ");

function card({ source, kind, live, last_event_at, events, last_sync, running_sync }) {
    const standing = ({ state, reason, count }) => el("li", {}, link(href("providers", { source, state, reason }), `${number(count)} ${words(state)}${reason ? `: ${words(reason)}` : ""}`));
    return [
        facts([
            ["Kind", words(kind)], ["Data", live ? "live" : "test"],
            ["Last event", last_event_at ? time(last_event_at) : ["none yet; point the webhook to ", el("code", {}, `/provider-webhooks/${source}`)]],
            ["Last sync", last_sync ? [time(last_sync.finished_at), `: ${counts(last_sync)}`] : "none yet"],
            ["Sync under way", running_sync ? ["since ", time(running_sync.started_at), `: ${counts(running_sync)}`] : undefined],
        ]),
        events.length > 0 && el("ul", {}, events.map(standing)),
    ];
}

const columns = (view, names) => [
    { name: "Object", cell: (row) => link(href("providers", { source: row.source, object: row.object?.id }), row.object?.id ?? row.key), csv: (row) => row.object?.id },
    { name: "Event", cell: (row) => [dotted(row.event_type ?? "a sync"), el("div", {}, el("small", {}, row.source))], csv: (row) => row.event_type },
    { name: "Source", csv: (row) => row.source },
    { name: "State", cell: (row) => [pill(row.state), row.reason && [" ", words(row.reason), el("div", {}, el("small", {}, REASONS[row.reason], row.path && ` At ${row.path}.`))]], csv: (row) => row.state },
    { name: "Reason", csv: (row) => row.reason },
    { name: "Customer", cell: (row) => row.customer ?? "–", csv: (row) => row.customer },
    { name: "Subscription", cell: (row) => (row.subscription_id ? link(href(["subscriptions", row.subscription_id]), short(row.subscription_id)) : "–"), csv: (row) => row.subscription_id },
    { name: "Received", cell: (row) => date(row.received_at), csv: (row) => row.received_at },
    { name: "Tries", cell: (row) => [number(row.attempts), row.next_attempt_at && el("div", {}, el("small", {}, "next ", date(row.next_attempt_at)))], csv: (row) => row.attempts },
    ...(can("providers:write") ? [{ name: "Action", cell: (row) => [
        button("Replay", () => replay(view, row), { "aria-label": `Replay ${row.key}` }),
        row.reason === "unknown_customer" && [" ", button("Link", () => linkCustomer(view, names, row), { "aria-label": `Link the customer of ${row.key}` })]] }] : []),
];

async function replay(view, row) {
    let event = null;
    const done = await dialog({
        title: "Replay the event", confirm: "Replay", act: async () => { event = (await call("POST", `/provider-events/${encodeURIComponent(row.id)}/replay`)).data; },
        body: el("p", {}, "The object ", el("code", {}, row.object?.id ?? row.key), ` is read from ${row.source} now, and its present state is applied here. Nothing changes at the provider.`),
    });
    if (!done) return;
    await dialog({ title: "After the replay", body: el("p", {}, pill(event.state), event.reason && ` ${words(event.reason)}: ${REASONS[event.reason]}`) });
    view.reload();
}

async function linkCustomer(view, names, { source, customer }) {
    const box = (name, value, hint) => labelled(name[1], el("input", { name: name[0], required: true, spellcheck: "false", autocomplete: "off", value: value ?? "" }), hint);
    const done = await dialog({
        title: "Link a customer", confirm: "Link", explain: faultsAtFields, act: (form) => call("POST", "/provider-links", { body: Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()])) }),
        body: [
            el("p", {}, "The customer of the provider becomes this user: events that wait for it are tried at once, and later ones too. The first link stays; it cannot be changed here."),
            labelled("Source", select("source", names, source)), box(["customer", "Customer at the provider"], customer, "Such as cus_1AbC."), box(["user_id", "Id of the user here"]),
        ],
    });
    if (done) view.reload();
}
