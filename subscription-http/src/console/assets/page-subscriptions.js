// The list of subscriptions.

import { all, can, get, href, session } from "./api.js";
import { STATUSES, code, cycle, date, link, p, pill, short, words } from "./el.js";
import { column, filters, listing, section } from "./table.js";

export default async function (view) {
    view.title("Subscriptions");
    const plans = await allPlans(view.signal);
    const isDay = (name, value) => name.startsWith("renews_") && /^\d{4}-\d\d-\d\d$/.test(value);
    const query = [...view.query].filter(([name]) => name !== "cursor" && name !== "limit").map(([name, value]) => [name, isDay(name, value) ? `${value}T00:00:00Z` : value]);
    view.add(
        filters(view, [
            { name: "status", label: "Status", kind: "checks", options: STATUSES.map((status) => [status, words(status)]) },
            { name: "subscription_plan_id", label: "Plan", kind: "select", options: plans.map(({ id, name, slug }) => [id, `${name} (${slug})`]) },
            { name: "is_active", label: "Access", kind: "select", options: [["true", "has access"], ["false", "has none"]] },
            { name: "user_id", label: "Id of the user", kind: "search" },
            { name: "renews_after", label: "Renews from", kind: "date" },
            { name: "renews_before", label: "Renews before", kind: "date" },
            { name: "sort", label: "Sort", kind: "select", any: "newest first", options: [["created_at", "oldest first"], ["renews_at", "renews soonest"], ["-renews_at", "renews last"]] },
        ]),
        section(null, listing(view, {
            path: "/subscriptions", query, scope: "subscriptions:read", caption: "Subscriptions", file: "subscriptions", columns,
            join: (rows, signal) => join(rows, plans, signal),
            empty: () => [p("No subscription fits. ", link(href("subscriptions"), "Show all")), p("A subscription is made with ", code("POST /subscriptions"), ".")],
        })),
    );
}

// All plans, of which there are few. The list is empty if the key does not have the scope to read plans.
export const allPlans = async (signal) => (can("plans:read") ? all("/subscription-plans", signal, 1_000) : []);

const byId = (rows) => new Map(rows.map((row) => [row.id, row]));

// Plans and e-mail addresses of the subscriptions on a page, by id.
export async function join(rows, plans, signal) {
    const ids = [...new Set(rows.map((row) => row.user_id))];
    const users = [];
    if (can("users:read") && session.settings.users !== "any") {
        for (let from = 0; from < ids.length; from += 50) users.push(...(await get("/users", ids.slice(from, from + 50).map((id) => ["id", id]), signal)).data);
    }
    return { plans: byId(plans), users: byId(users) };
}

const email = (row, { users }) => users.get(row.user_id)?.email;
const plan = (row, { plans }) => plans.get(row.subscription_plan_id)?.name;

// The next date of a subscription. A subscription that will not renew may still have a renewal date.
function ends({ status, ends_at, renews_at, resumes_at }) {
    if (ends_at) return [status === "expired" ? "ended " : "ends ", date(ends_at)];
    if (status === "paused" && resumes_at) return ["resumes ", date(resumes_at)];
    return ["paused", "unpaid", "expired"].includes(status) ? "–" : date(renews_at);
}

export const columns = [
    { name: "User", cell: (row, context) => link(href(["subscriptions", row.id]), email(row, context) ?? short(row.user_id)), csv: (row, context) => email(row, context) ?? row.user_id },
    { name: "Status", cell: (row) => [pill(row.status), row.blocked && " blocked"], csv: (row) => row.status },
    { name: "Plan", cell: (row, context) => plan(row, context) ?? short(row.subscription_plan_id), csv: (row, context) => plan(row, context) ?? row.subscription_plan_id },
    column("Cycle", "billing_cycle", cycle),
    { name: "Renews or ends", cell: ends, csv: (row) => row.ends_at ?? row.renews_at },
    column("Since", "starts_at", date),
    column("Price", "price"), column("Currency", "currency"), column("Quantity", "quantity"), column("Id", "id"),
];
