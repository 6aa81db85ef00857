// One user: access now, subscriptions with their payments, sessions.

import { Problem, call, can, get, isUuid, session } from "./api.js";
import { dialog } from "./dialog.js";
import { button, el, link } from "./el.js";
import { allPlans } from "./page-subscriptions.js";
import { href } from "./route.js";
import { block } from "./states.js";
import { download, facts, section, table } from "./table.js";
import { cycle, date, money, number, pill, sentence, short, time, words } from "./words.js";

export default async function (view) {
    if (!isUuid(view.id)) throw new Problem({ code: "not_found", detail: "This is not the id of a user: it must be a UUID." }, 404);
    // The list answers an id without an account with nothing, and not with an error.
    const account = can("users:read") ? (await get("/users", { id: view.id }, view.signal)).data[0] : undefined;
    view.title(account?.email ?? `User ${short(view.id)}`);
    view.add(
        section(null, facts([["Id", el("code", {}, view.id)], ["Account", account ? ["since ", date(account.created_at)] : can("users:read") ? "none here" : "not shown to your key"],
            ["History", account && can("events:read") ? link(href("events", { subject_id: view.id }), "Events of the account") : undefined]]),
        !account && can("users:read") && session.settings.users !== "any" && el("p", { class: "state" }, "There is no account with this id, or it was deleted.")),
        section("Access now", block(view, { scope: "subscriptions:read", name: "access", load: (signal) => get(`/users/${view.id}/entitlement`, null, signal), show: access })),
        section("Subscriptions", subscriptions(view)),
        account && section("Sessions", sessions(view)),
    );
}

function access({ has_access, features, node_quota, grants }) {
    if (!has_access) return el("p", { class: "state" }, "No subscription gives access now.");
    const by = ({ subscription_id, status, ends_at, renews_at, plan }) => el("li", {}, link(href(["subscriptions", subscription_id]), plan.name), " ", pill(status),
        ends_at ? [" until ", date(ends_at)] : renews_at ? [", renews on ", date(renews_at)] : null);
    return [
        facts([["Features", features.length ? features.join(", ") : "none"], ["Quota of nodes", number(node_quota)]]),
        el("h3", {}, "By these subscriptions"), el("ul", {}, grants.map(by)),
    ];
}

function subscriptions(view) {
    const load = async (signal) => {
        const [page, plans] = await Promise.all([get("/subscriptions", { user_id: view.id, limit: "20" }, signal), allPlans(signal)]);
        return { ...page, plans: new Map(plans.map((plan) => [plan.id, plan])) };
    };
    const one = (row, plan, index) => {
        const price = row.price ?? plan?.price;
        const cost = price && [", ", row.quantity > 1 && `${number(row.quantity)} × `, money(price, row.currency ?? plan?.currency), `, ${cycle(row.billing_cycle)}`];
        return el("article", {},
            el("h3", {}, link(href(["subscriptions", row.id]), plan?.name ?? `Plan ${short(row.subscription_plan_id)}`), " ", pill(row.status)),
            el("p", {}, sentence(row), cost), can("payments:read") && payments(view, row.id, index === 0));
    };
    return block(view, {
        scope: "subscriptions:read", name: "subscriptions", load, empty: "This user has no subscription.",
        show: ({ data, plans, next_cursor }) => data.length ? [
            data.map((row, index) => one(row, plans.get(row.subscription_plan_id), index)),
            el("p", {}, link(href("subscriptions", { user_id: view.id }), next_cursor ? "All of them, as a list" : "As a list")),
        ] : null,
    });
}

const PAYMENTS = [
    { name: "Amount", kind: "number", cell: (row) => money(row.amount, row.currency) },
    { name: "Status", cell: (row) => pill(row.status) },
    { name: "Kind", cell: (row) => words(row.kind ?? "–") },
    { name: "Period", cell: (row) => (row.period_start ? [date(row.period_start), " to ", row.period_end ? date(row.period_end) : "no end"] : "–") },
    { name: "Made", cell: (row) => date(row.created_at) },
];

// The payments of a subscription, read when they are opened.
function payments(view, id, open) {
    const show = ({ data, next_cursor }) => (data.length ? [table("Payments, newest first", PAYMENTS, data), next_cursor && el("p", {}, link(href(["subscriptions", id]), "More of them"))] : null);
    const fill = () => {
        if (node.open && node.children.length === 1) {
            node.append(block(view, { scope: "payments:read", name: "payments", empty: "No payment yet.", show, load: (signal) => get(`/subscriptions/${id}/payments`, { limit: "20" }, signal) }));
        }
    };
    const node = el("details", { open, on: { toggle: fill } }, el("summary", {}, "Payments"));
    return node;
}

const SESSIONS = [
    { name: "Device", cell: (row) => row.user_agent ?? "not known", csv: (row) => row.user_agent },
    { name: "Place", cell: (row) => row.ip ?? "not known", csv: (row) => row.ip },
    { name: "Client", cell: (row) => row.client, csv: (row) => row.client },
    { name: "Since", cell: (row) => time(row.created_at), csv: (row) => row.created_at },
    { name: "Last seen", cell: (row) => time(row.last_seen_at), csv: (row) => row.last_seen_at },
    { name: "Ends", cell: (row) => date(row.expires_at), csv: (row) => row.expires_at },
];

function sessions(view) {
    const end = async (count, reload) => {
        const done = await dialog({
            title: "End all sessions", confirm: "End all sessions", danger: true,
            body: el("p", {}, `The user is signed out everywhere: ${count} ${count === 1 ? "session ends" : "sessions end"} now, and the tokens are refused. Subscriptions stay as they are, and the user can sign in again.`),
            act: () => call("POST", `/users/${view.id}/revoke-sessions`),
        });
        if (done) reload();
    };
    return block(view, {
        scope: "users:read", name: "sessions", empty: "The user is signed in nowhere.", load: (signal) => get(`/users/${view.id}/sessions`, null, signal),
        show: ({ data }, reload) => data.length ? [
            table("Live sessions, newest first", SESSIONS, data),
            el("div", { class: "pager" }, can("users:write") && button("End all sessions", () => end(data.length, reload)),
                download(view, "sessions", SESSIONS, () => [{ data }])),
        ] : null,
    });
}
