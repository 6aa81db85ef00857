// Search: the text decides what is tried, and the scopes what may be tried. Nothing found is an empty list and no error.

import { can, get, isUuid, session } from "./api.js";
import { el, link } from "./el.js";
import { allPlans } from "./page-subscriptions.js";
import { isBeginning } from "./page-users.js";
import { href, redirect } from "./route.js";
import { block } from "./states.js";
import { section } from "./table.js";
import { pill, short } from "./words.js";

const MANY = 20;

export default function (view) {
    const text = (view.query.get("q") ?? "").trim();
    view.title("Search");
    if (!text) return view.add(el("p", { class: "state" }, "Type an id, the beginning of an e-mail address, an id at the payment provider, or the slug of a plan into the field above."));
    view.add(section(null, block(view, { name: "what fits", load: (signal) => find(text, signal), show: (found) => show(text, found) })));
}

// Redirects to the only hit, else shows all of them, or what was tried.
function show(text, { hits, tried }) {
    if (hits.length === 1) {
        redirect(...hits[0].to);
        return el("p", { class: "state", role: "status" }, "Found.");
    }
    const shownText = text.length > 100 ? `${text.slice(0, 100)}…` : text;
    if (!hits.length) return [
        el("p", { role: "status" }, "Nothing was found for ", el("strong", {}, shownText), "."),
        tried.length ? [el("p", {}, "It was tried as:"), el("ul", {}, tried.map((name) => el("li", {}, name)))] : el("p", {}, "Your key does not allow to search for such a text."),
    ];
    return [el("p", { role: "status" }, `${hits.length}${hits.length > MANY ? " or more" : ""} records fit `, el("strong", {}, shownText), "."),
        el("ul", {}, hits.map(({ to, name, beside }) => el("li", {}, link(href(...to), name), " ", beside)))];
}

// What fits a text, and what was tried.
async function find(text, signal) {
    const searches = isUuid(text) ? byId(text.toLowerCase()) : text.includes("@") ? byAddress(text) : byName(text);
    const allowed = searches.filter(({ allowed = true }) => allowed);
    const hits = (await Promise.all(allowed.map(({ run }) => run(signal)))).flat();
    return { hits, tried: allowed.map(({ name }) => name) };
}

const userHit = ({ id, email }) => ({ to: [["users", id]], name: email, beside: "user" });
const subscriptionHit = (row) => ({ to: [["subscriptions", row.id]], name: row.external_subscription_id ?? `Subscription ${short(row.id)}`, beside: pill(row.status) });

const byAddress = (text) => [{
    name: "the beginning of an e-mail address, which has 3 or more characters without spaces", allowed: can("users:read"),
    run: async (signal) => (isBeginning(text) ? (await get("/users", { email_starts_with: text, limit: String(MANY + 1) }, signal)).data.map(userHit) : []),
}];

const byName = (text) => [
    {
        name: "the id of a subscription at its payment provider", allowed: can("subscriptions:read"),
        run: async (signal) => (!/^[^\x00-\x1f\x7f-\x9f]{1,255}$/.test(text) ? [] : (await get("/subscriptions", { external_subscription_id: text }, signal)).data.map(subscriptionHit)),
    },
    {
        name: "the slug or the name of a plan", allowed: can("plans:read"),
        run: async (signal) => {
            const plans = await allPlans(signal);
            const same = plans.filter(({ slug }) => slug === text.toLowerCase());
            const alike = plans.filter(({ slug, name }) => `${slug} ${name}`.toLowerCase().includes(text.toLowerCase()));
            return (same.length ? same : alike).slice(0, MANY).map(({ slug, name }) => ({ to: ["plans", { slug }], name, beside: `plan ${slug}` }));
        },
    },
];

const byId = (id) => [
    { name: "a user", allowed: can("users:read"), run: async (signal) => {
        const accounts = (await get("/users", { id }, signal)).data;
        if (accounts.length || session.settings.users !== "any" || !can("subscriptions:read")) return accounts.map(userHit);
        // Users without an account are known by their subscriptions.
        return (await get("/subscriptions", { user_id: id, limit: "1" }, signal)).data.map(() => ({ to: [["users", id]], name: id, beside: "user" }));
    } },
    { name: "a subscription, a payment or a plan", allowed: can("subscriptions:read") || can("payments:read"), run: (signal) => record(id, signal) },
];

// A subscription, payment or plan by its id. Its events tell which of them it is; only if they are not kept any more, the
// routes of the records are asked, which answer with an error if there is none.
async function record(id, signal) {
    if (can("events:read")) {
        const events = (await get("/events", { subject_id: id, limit: "200" }, signal)).data;
        const last = events.at(-1);
        if (last?.type.endsWith(".deleted")) return [{ to: ["events", { subject_id: id }], name: id, beside: `deleted ${last.subject.kind}` }];
        if (last?.subject.kind === "plan") return [{ to: ["plans"], name: id, beside: "plan" }];
        if (last?.subject.kind === "subscription") return [{ to: [["subscriptions", id]], name: id, beside: "subscription" }];
        if (last?.subject.kind === "payment") return can("payments:read") ? payment(id, signal) : [];
        const oldest = (await get("/events", { limit: "1" }, signal)).data[0];
        // An id of version 7 begins with the time of its record, and no other version has records.
        if (last || id[14] !== "7" || (oldest && Number.parseInt(id.replace("-", "").slice(0, 12), 16) >= Date.parse(oldest.at))) return [];
    }
    const tries = [
        can("subscriptions:read") && (async () => [subscriptionHit(await get(`/subscriptions/${id}`, null, signal))]),
        can("payments:read") && (() => payment(id, signal)),
    ];
    for (const attempt of tries.filter(Boolean)) {
        try {
            return await attempt();
        } catch (error) {
            if (error.status !== 404) throw error;
        }
    }
    return [];
}

// A payment is shown on the page of its subscription.
async function payment(id, signal) {
    const { subscription_id } = await get(`/subscription-payments/${id}`, null, signal);
    return [{ to: [["subscriptions", subscription_id]], name: id, beside: "payment" }];
}
