// Users: the list, and one user with access now, subscriptions with their payments, and sessions.

import { Problem, call, can, get, go, href, isUuid, session } from "./api.js";
import { confirmButton } from "./dialog.js";
import { block, code, date, el, form, labelled, link, note, number, p, pager, pill, planName, sentence, short, submit, time } from "./el.js";
import { PAYMENTS } from "./page-subscription.js";
import { allPlans } from "./page-subscriptions.js";
import { column, download, facts, filters, listing, plain, section, table } from "./table.js";

export default (view) => (view.id === undefined ? list(view) : one(view));

function list(view) {
    const begins = view.query.get("email_starts_with")?.trim();
    view.title("Users");
    view.add(
        filters(view, [{ name: "email_starts_with", label: "Address begins with", kind: "search", attributes: { pattern: "\\s*\\S{3,254}\\s*", title: "3 or more letters, without spaces" } }]),
        session.settings.users === "any" && anyUser(),
        section(null, listing(view, {
            path: "/users", query: begins && { email_starts_with: begins }, scope: "users:read", caption: "Users", file: "users", columns,
            empty: () => [p("No account fits. An account is made at sign-up."), link(href("users"), "Show all")],
        })),
    );
}

const columns = [
    column("E-mail", "email", (email, { id }) => link(href(["users", id]), email)),
    column("Since", "created_at", date),
    column("Id", "id", (id) => el("code", { title: id }, short(id))),
];

// If users need no account, every id may be that of a user.
function anyUser() {
    const box = el("input", { required: true, id: "any-user", spellcheck: "false" });
    return form({ class: "filters", "aria-label": "Open a user" }, () => go(["users", box.value.trim()]), labelled("Id of any user", box), el("div", { class: "field" }, submit("Open")));
}

async function one(view) {
    if (!isUuid(view.id)) throw new Problem({ code: "not_found", detail: "The id of a user is a UUID." }, 404);
    const account = can("users:read") ? (await get("/users", { id: view.id }, view.signal)).data[0] : undefined;
    view.title(account?.email ?? `User ${short(view.id)}`);
    view.add(
        section(null, facts([
            ["Id", code(view.id)],
            ["Account", account ? ["since ", date(account.created_at)] : can("users:read") ? "none, or deleted" : "not shown to your key"],
            ["History", account && can("events:read") ? link(href("events", { subject_id: view.id }), "Events of the account") : undefined],
        ])),
        section("Access now", block(view, { scope: "subscriptions:read", name: "access", load: (signal) => get(`/users/${view.id}/entitlement`, null, signal), show: access })),
        section("Subscriptions", subscriptions(view)),
        account && section("Sessions", sessions(view)),
    );
}

function access({ has_access, features, node_quota, grants }) {
    if (!has_access) return note("No subscription gives access now.");
    const by = ({ subscription_id, status, ends_at, renews_at, plan }) => el("li", {}, link(href(["subscriptions", subscription_id]), plan.name), " ", pill(status),
        ends_at ? [" until ", date(ends_at)] : renews_at && [", renews on ", date(renews_at)]);
    return facts([["Features", features.join(", ") || "none"], ["Quota of nodes", number(node_quota)], ["By", el("ul", {}, grants.map(by))]]);
}

function subscriptions(view) {
    const load = async (signal) => ({ ...(await get("/subscriptions", { user_id: view.id, limit: "20" }, signal)), plans: await allPlans(signal) });
    const one = (row, plans) => el("article", {},
        el("h3", {}, link(href(["subscriptions", row.id]), planName(row.subscription_plan_id, plans)), " ", pill(row.status)),
        p(sentence(row)), can("payments:read") && payments(view, row));
    return block(view, {
        scope: "subscriptions:read", name: "subscriptions", load, empty: "This user has no subscription.",
        show: ({ data, plans }) => data.length ? [data.map((row) => one(row, plans)), p(link(href("subscriptions", { user_id: view.id }), "All of them, as a list"))] : null,
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
            pager(can("users:write") && end(), download(view, "sessions", SESSIONS, () => [{ data }])),
        ] : null,
    });
}
