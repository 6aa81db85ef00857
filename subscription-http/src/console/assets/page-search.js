// Search: the form of the text decides which records are looked up, and the scopes of the key decide which may be.

import { can, get, href, isUuid } from "./api.js";
import { block, el, link, note, pill, short } from "./el.js";
import { recordHref } from "./page-events.js";
import { allPlans } from "./page-subscriptions.js";
import { section } from "./table.js";

const MANY = 20;

export default function (view) {
    const text = view.query.get("q")?.trim();
    view.title("Search");
    if (!text) return view.add(note("Type an id, the beginning of an e-mail address, or the slug of a plan into the field above."));
    const [tried, search] = isUuid(text) ? ["the id of a user, a subscription, a payment or a plan", byId] : text.includes("@") ? ["the beginning of an e-mail address", byAddress] : ["an id at the payment provider, and a plan", byName];
    view.add(section(null, block(view, { name: "what fits", load: (signal) => search(text, signal), show: (hits) => show(text, tried, hits) })));
}

// Redirects to the hit if there is only one, else lists all hits.
function show(text, tried, hits) {
    if (hits.length === 1) location.replace(hits[0].to);
    const shownText = el("strong", {}, text.length > 100 ? `${text.slice(0, 100)}…` : text);
    if (!hits.length) return el("p", { role: "status" }, "Nothing was found for ", shownText, `. It was tried as ${tried}, as far as your key allows.`);
    return [el("p", { role: "status" }, `The first ${hits.length} that fit `, shownText, "."), el("ul", {}, hits.map(({ to, name, beside }) => el("li", {}, link(to, name), " ", beside)))];
}

const userHit = ({ id, email }) => ({ to: href(["users", id]), name: email ?? id, beside: "user" });
const subscriptionHit = ({ id, external_subscription_id, status }) => ({ to: href(["subscriptions", id]), name: external_subscription_id ?? `Subscription ${short(id)}`, beside: pill(status) });

async function byAddress(text, signal) {
    if (!can("users:read") || !/^[!-~]{3,254}$/.test(text)) return [];
    return (await get("/users", { email_starts_with: text, limit: MANY }, signal)).data.map(userHit);
}

async function byName(text, signal) {
    const subscriptions = can("subscriptions:read") && text.length < 256 ? (await get("/subscriptions", { external_subscription_id: text }, signal)).data : [];
    const wanted = text.toLowerCase();
    const alike = (await allPlans(signal)).filter(({ slug, name }) => `${slug} ${name}`.toLowerCase().includes(wanted));
    const same = alike.filter(({ slug }) => slug === wanted);
    const plans = same.length ? same : alike.slice(0, MANY);
    return [...subscriptions.map(subscriptionHit), ...plans.map(({ slug, name }) => ({ to: href("plans", { slug }), name, beside: `plan ${slug}` }))];
}

// Finds a record by its id. The record's last event shows its kind; without an event, all kinds that the key may read are tried.
async function byId(id, signal) {
    const last = can("events:read") && (await get("/events", { subject_id: id, limit: "200" }, signal)).data.at(-1);
    if (last && last.subject.kind !== "payment") return [{ to: recordHref(last), name: id, beside: last.subject.kind }];
    for (const [, read] of READS.filter(([scope]) => can(scope))) {
        try {
            const hits = await read(id, signal);
            if (hits.length) return hits;
        } catch (error) {
            if (error.status !== 404) throw error;
        }
    }
    return [];
}

const READS = [
    ["payments:read", async (id, signal) => {
        const { subscription_id } = await get(`/subscription-payments/${id}`, null, signal);
        return [{ to: href(["subscriptions", subscription_id]), name: id, beside: "payment" }];
    }],
    ["users:read", async (id, signal) => (await get("/users", { id }, signal)).data.map(userHit)],
    // Users without an account are known by their subscriptions.
    ["subscriptions:read", async (id, signal) => (await get("/subscriptions", { user_id: id, limit: "1" }, signal)).data.map(() => userHit({ id }))],
    ["subscriptions:read", async (id, signal) => [subscriptionHit(await get(`/subscriptions/${id}`, null, signal))]],
];
