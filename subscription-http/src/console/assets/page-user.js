// One user: access now, subscriptions with their payments, sessions.

import { Problem, call, can, get, isUuid } from "./api.js";
import { confirmButton } from "./dialog.js";
import { el, link } from "./el.js";
import { PAYMENTS } from "./page-subscription.js";
import { allPlans } from "./page-subscriptions.js";
import { href } from "./route.js";
import { block } from "./states.js";
import { column, download, facts, plain, section, table } from "./table.js";
import { date, number, pill, planName, sentence, short, time } from "./words.js";

export default async function (view) {
    if (!isUuid(view.id)) throw new Problem({ code: "not_found", detail: "The id of a user is a UUID." }, 404);
    const account = can("users:read") ? (await get("/users", { id: view.id }, view.signal)).data[0] : undefined;
    view.title(account?.email ?? `User ${short(view.id)}`);
    view.add(
        section(null, facts([
            ["Id", el("code", {}, view.id)],
            ["Account", account ? ["since ", date(account.created_at)] : can("users:read") ? "none, or deleted" : "not shown to your key"],
            ["History", account && can("events:read") ? link(href("events", { subject_id: view.id }), "Events of the account") : undefined],
        ])),
        section("Access now", block(view, { scope: "subscriptions:read", name: "access", load: (signal) => get(`/users/${view.id}/entitlement`, null, signal), show: access })),
        section("Subscriptions", subscriptions(view)),
        account && section("Sessions", sessions(view)),
    );
}

function access({ has_access, features, node_quota, grants }) {
    if (!has_access) return el("p", { class: "state" }, "No subscription gives access now.");
    const by = ({ subscription_id, status, ends_at, renews_at, plan }) => el("li", {}, link(href(["subscriptions", subscription_id]), plan.name), " ", pill(status),
        ends_at ? [" until ", date(ends_at)] : renews_at && [", renews on ", date(renews_at)]);
    return facts([["Features", features.join(", ") || "none"], ["Quota of nodes", number(node_quota)], ["By", el("ul", {}, grants.map(by))]]);
}

function subscriptions(view) {
    const load = async (signal) => ({ ...(await get("/subscriptions", { user_id: view.id, limit: "20" }, signal)), plans: await allPlans(signal) });
    const one = (row, plans) => el("article", {},
        el("h3", {}, link(href(["subscriptions", row.id]), planName(row.subscription_plan_id, plans)), " ", pill(row.status)),
        el("p", {}, sentence(row)), can("payments:read") && payments(view, row));
    return block(view, {
        scope: "subscriptions:read", name: "subscriptions", load, empty: "This user has no subscription.",
        show: ({ data, plans }) => data.length ? [data.map((row) => one(row, plans)), el("p", {}, link(href("subscriptions", { user_id: view.id }), "All of them, as a list"))] : null,
    });
}

// The payments of a subscription, read when they are opened.
function payments(view, record) {
    const load = async (signal) => (await get(`/subscriptions/${record.id}/payments`, { limit: "200" }, signal)).data;
    const show = (rows) => (rows.length ? table("Payments, newest first", PAYMENTS, rows) : null);
    const list = () => block(view, { scope: "payments:read", name: "payments", load, show, empty: "It has no payments." });
    const fill = () => { if (node.children.length === 1) node.append(list()); };
    const node = el("details", { on: { toggle: fill } }, el("summary", {}, "Payments"));
    return node;
}

const SESSIONS = [
    column("Device", "user_agent", plain), column("Place", "ip", plain), column("Client", "client", plain),
    column("Since", "created_at", time), column("Last seen", "last_seen_at", time), column("Ends", "expires_at", date),
];

function sessions(view) {
    const end = () => confirmButton(view, "End all sessions", {
        text: "The user is signed out everywhere at once, and can sign in again. Subscriptions stay as they are.", danger: true,
        act: () => call("POST", `/users/${view.id}/revoke-sessions`),
    });
    return block(view, {
        scope: "users:read", name: "sessions", empty: "The user is signed in nowhere.", load: (signal) => get(`/users/${view.id}/sessions`, null, signal),
        show: ({ data }) => data.length ? [
            table("Live sessions, newest first", SESSIONS, data),
            el("div", { class: "pager" }, can("users:write") && end(), download(view, "sessions", SESSIONS, () => [{ data }])),
        ] : null,
    });
}
