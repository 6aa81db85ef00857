// Plans: what is sold, for how much, and what it brings.

import { comparison } from "./act.js";
import { call, can } from "./api.js";
import { dialog, faultsAtFields } from "./dialog.js";
import { button, el, labelled, link } from "./el.js";
import { figures } from "./page-overview.js";
import { allPlans } from "./page-subscriptions.js";
import { plot, rows } from "./plot.js";
import { href } from "./route.js";
import { block, failure } from "./states.js";
import { facts } from "./table.js";
import { cycle, money, number } from "./words.js";

export default function (view) {
    view.title("Plans", can("plans:write") && button("New plan", () => edit(view), { class: "primary" }));
    view.add(
        view.query.has("slug") && el("p", {}, link(href("plans"), "Show all plans")),
        block(view, {
            scope: "plans:read", name: "plans", load: async (signal) => (await allPlans(signal)).filter(({ slug }) => [null, slug].includes(view.query.get("slug"))),
            show: (plans) => (plans.length ? el("div", { class: "grid" }, plans.map((plan) => card(view, plan))) : null),
            empty: () => el("p", {}, "There is no plan yet. A plan is what users subscribe to: a name, a price and a billing cycle."),
        }),
        block(view, {
            scope: "subscriptions:read", name: "figures", load: (signal) => figures("/stats/now", {}, signal),
            show: ({ plans }) => el("div", { class: "grid" }, byPlan(plans)), empty: "No figures.",
        }),
    );
}

const price = (plan) => `${money(plan.price, plan.currency)}${plan.billing_cycle === "one_time" ? " once" : `, ${cycle(plan.billing_cycle)}`}`;

function card(view, plan) {
    const act = (text, run, attributes) => button(text, () => run(view, plan), { "aria-label": `${text} ${plan.name} (${plan.slug})`, ...attributes });
    return el("article", { class: "card plan" },
        el("h2", {}, plan.name, " ", el("code", {}, plan.slug)),
        el("p", {}, el("strong", {}, price(plan)), " ", plan.most_popular && el("span", { class: "pill active" }, "most popular"), " ", !plan.is_active && el("span", { class: "pill paused" }, "withdrawn")),
        plan.description && el("p", {}, plan.description),
        facts([
            ["Tier", number(plan.tier)],
            ["Node quota", number(plan.node_quota)],
            ["Trial", plan.trial_period ? cycle(plan.trial_period).replace("every ", "") : "none"],
            ["Product id", plan.product_id ?? "none"],
            ["Subscriptions", can("subscriptions:read") ? el("a", { href: href("subscriptions", { subscription_plan_id: plan.id }), "aria-label": `Show subscriptions to ${plan.name} (${plan.slug})` }, "show") : undefined],
        ]),
        plan.features && el("p", { class: "soft" }, plan.features),
        can("plans:write") && el("div", { class: "pager" }, act("Edit", edit), act(plan.is_active ? "Withdraw" : "Offer again", withdraw), act("Delete", remove)));
}

// MRR by plan, one plot a currency. The order is the server's for the table, and by amount for the bars.
function byPlan(plans) {
    const currencies = [...new Set(plans.flatMap(({ money: sums }) => sums.map(({ currency }) => currency)))];
    return currencies.map((currency) => {
        const of = (plan) => plan.money.find((sum) => sum.currency === currency)?.mrr;
        const there = plans.filter((plan) => of(plan) !== undefined).sort((one, other) => Number(of(other)) - Number(of(one)));
        return plot(rows, {
            title: `MRR by plan, ${currency ?? "no currency"}`, info: ["mrr", "MRR"], file: `mrr-by-plan-${currency ?? "none"}`, first: "Plan",
            labels: there.map(({ name, slug }) => `${name} (${slug})`), keys: there.map(({ slug }) => slug),
            label: `MRR by plan: ${there.slice(0, 3).map((plan) => `${plan.name} ${money(of(plan), currency)}`).join(", ")}${there.length > 3 ? `, and ${there.length - 3} more` : ""}.`,
            cell: (at) => link(href("subscriptions", { subscription_plan_id: there[at].id }), `${there[at].name} (${there[at].slug})`),
            series: [
                { name: "MRR", tone: 1, values: there.map(of), show: (amount) => money(amount, currency) },
                { name: "Subscriptions", tone: 1, aside: true, values: there.map(({ subscriptions }) => subscriptions), show: number },
            ],
        });
    });
}

const CYCLES = ["daily", "weekly", "biweekly", "monthly", "bimonthly", "quarterly", "semiannual", "yearly", "biennial", "one_time"];

// The fields of a plan. Those that are `fixed` are set once; `none` is sent for an empty one.
const FIELDS = [
    { name: "name", label: "Name", fixed: true, required: true, maxlength: 200 },
    { name: "slug", label: "Slug", fixed: true, required: true, maxlength: 64, hint: "Names the plan in addresses: a–z, 0–9 and dashes" },
    { name: "price", label: "Price", required: true, inputmode: "decimal", hint: "For one cycle, such as 19.90; for new subscriptions" },
    { name: "currency", label: "Currency", maxlength: 3, none: null, hint: "Such as USD. With a currency, the service bills new subscriptions" },
    { name: "billing_cycle", label: "Billing cycle", required: true, list: CYCLES, hint: "One of the list, or a duration such as P18M" },
    { name: "trial_period", label: "Trial", none: null, hint: "Such as P14D; empty for none" },
    { name: "description", label: "Description", kind: "textarea", none: "", maxlength: 4000 },
    { name: "features", label: "Features", none: "", maxlength: 4000, hint: "Separated by commas" },
    { name: "tier", label: "Tier", type: "number", min: 0, max: 10000, none: 0, hint: "The rank among the plans; cards are in this order" },
    { name: "node_quota", label: "Node quota", type: "number", min: 0, none: 0 },
    { name: "product_id", label: "Product id", fixed: true, maxlength: 255, none: null, hint: "The product at the payment provider" },
    { name: "most_popular", label: "Most popular", type: "checkbox" },
];

function control({ name, label, kind = "input", hint, list, fixed, none, ...attributes }, plan) {
    const given = plan?.[name];
    const options = list && el("datalist", { id: "cycles" }, list.map((value) => el("option", { value })));
    const own = { name, autocomplete: "off", list: list && "cycles", ...attributes };
    if (attributes.type === "checkbox") {
        const box = el("input", { ...own, id: `plan-${name}`, checked: Boolean(given) });
        return el("div", { class: "field" }, el("label", { for: box.id }, box, label));
    }
    return [labelled(label, el(kind, { ...own, value: given ?? "" }), hint), options];
}

// The values of the form that differ from those of the plan.
function changes(form, fields, plan) {
    const body = {};
    for (const { name, type, none, required } of fields) {
        const box = form.elements[name];
        const text = name === "description" ? box.value : box.value.trim();
        const value = type === "checkbox" ? box.checked : text === "" && !required ? none : type === "number" ? Number(text) : text;
        if (plan ? value !== plan[name] : value !== none) body[name] = value;
    }
    return body;
}

const at = ({ slug }) => `/subscription-plans/${encodeURIComponent(slug)}`;

// Reads the plan again, so that the dialog starts from what is stored, then opens the dialog.
async function fresh(view, plan, open) {
    try {
        const { data, etag } = await call("GET", at(plan), { signal: view.signal });
        if (await open(data, etag)) view.reload();
    } catch (error) {
        if (!view.signal.aborted) await dialog({ title: plan.name, body: failure(error) });
    }
}

// A new plan, or changes to one.
async function edit(view, plan) {
    const open = (stored, etag) => {
        const fields = FIELDS.filter(({ fixed }) => !stored || !fixed);
        let version = etag;
        // Only the fields that were changed here are sent, so that saving again keeps what others changed.
        const conflict = (now) => {
            version = now.etag;
            return [el("p", { class: "error", role: "alert" }, "Somebody else changed this plan meanwhile, so nothing was saved. Save again to write the fields that you changed; the others stay as they are now."), comparison(stored, now.data)];
        };
        return dialog({
            title: stored ? `Edit ${stored.name}` : "New plan", confirm: stored ? "Save" : "Create the plan",
            body: [stored && el("p", { class: "soft" }, "Name, slug and product are fixed. A new price holds for new subscriptions; those that the service bills keep theirs."), el("div", { class: "fields" }, fields.map((field) => control(field, stored)))].filter(Boolean),
            act: async (form) => {
                if (!stored) return call("POST", "/subscription-plans", { body: changes(form, fields) });
                try {
                    return await call("PUT", at(stored), { body: changes(form, fields, stored), ifMatch: version });
                } catch (error) {
                    if (error.status === 412) error.nodes = conflict(await call("GET", at(stored)));
                    throw error;
                }
            },
            explain: (error, form) => error.nodes ?? faultsAtFields(error, form) ?? (error.code === "slug_taken" ? el("p", { class: "error", role: "alert" }, "Another plan has this slug.") : null),
        });
    };
    if (plan) return fresh(view, plan, open);
    if (await open()) view.reload();
}

const withdraw = (view, plan) => fresh(view, plan, (stored, etag) => dialog({
    title: stored.is_active ? `Withdraw ${stored.name}` : `Offer ${stored.name} again`, confirm: stored.is_active ? "Withdraw" : "Offer again",
    body: el("p", {}, stored.is_active ? "Nobody can subscribe to it any more. Subscriptions that have it go on and renew as before." : "New subscriptions can have it again."),
    act: () => call("PUT", at(stored), { body: { is_active: !stored.is_active }, ifMatch: etag }),
}));

const remove = (view, plan) => fresh(view, plan, (stored, etag) => dialog({
    title: `Delete ${stored.name}`, confirm: "Delete", danger: true,
    body: el("p", {}, "The plan is removed, and its slug ", el("code", {}, stored.slug), " is free again. It cannot be undone."),
    act: () => call("DELETE", at(stored), { ifMatch: etag }),
    explain: (error) => error.code === "plan_in_use" ? el("p", { class: "error", role: "alert" }, "Subscriptions have this plan, or are scheduled to change to it, so it cannot be deleted. Withdraw it instead: then nobody can subscribe to it any more.") : null,
}));
