// Plans: their prices, their features and their revenue.

import { call, can, get, href } from "./api.js";
import { comparison, confirmButton, explain } from "./dialog.js";
import { block, code, cycle, el, labelled, link, money, number, p, pager, soft, wrong } from "./el.js";
import { figures } from "./page-overview.js";
import { allPlans } from "./page-subscriptions.js";
import { plot, rows } from "./plot.js";
import { facts } from "./table.js";

export default function (view) {
    view.title("Plans", can("plans:write") && edit(view, null, { class: "primary" }));
    view.add(
        view.query.has("slug") && p(link(href("plans"), "Show all plans")),
        block(view, {
            scope: "plans:read", name: "plans", load: async (signal) => (await allPlans(signal)).filter(({ slug }) => [null, slug].includes(view.query.get("slug"))),
            show: (plans) => (plans.length ? el("div", { class: "grid" }, plans.map((plan) => card(view, plan))) : null),
            empty: () => p("There is no plan yet."),
        }),
        block(view, {
            scope: "subscriptions:read", name: "figures", load: (signal) => figures("/stats/now", {}, signal),
            show: ({ plans }) => el("div", { class: "grid" }, byPlan(plans)), empty: "No figures.",
        }),
    );
}

const price = (plan) => `${money(plan.price, plan.currency)}${plan.billing_cycle === "one_time" ? " once" : `, ${cycle(plan.billing_cycle)}`}`;

function card(view, plan) {
    const act = (make) => {
        const made = make(view, plan);
        made.ariaLabel = `${made.textContent} ${plan.name} (${plan.slug})`;
        return made;
    };
    return el("article", { class: "card plan" },
        el("h2", {}, plan.name, " ", code(plan.slug)),
        p(el("strong", {}, price(plan)), " ", plan.most_popular && el("span", { class: "pill active" }, "most popular"), " ", !plan.is_active && el("span", { class: "pill paused" }, "withdrawn")),
        plan.is_active && !plan.currency && !plan.product_id && !plan.variants.length && Number(plan.price) > 0 && el("p", { class: "error" }, "No currency: nothing ends or renews its subscriptions."),
        plan.description && p(plan.description),
        facts([
            ["Tier", number(plan.tier)],
            ["Node quota", number(plan.node_quota)],
            ["Trial", plan.trial_period ? cycle(plan.trial_period).replace("every ", "") : "none"],
            ["Product id", plan.product_id ?? "none"],
            ["Subscriptions", can("subscriptions:read") ? el("a", { href: href("subscriptions", { subscription_plan_id: plan.id }), "aria-label": `Show subscriptions to ${plan.name} (${plan.slug})` }, "show") : undefined],
        ]),
        plan.features && soft(plan.features),
        can("plans:write") && pager([edit, withdraw, remove].map(act)));
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

// The fields of a plan. A `fixed` field is set once, when the plan is created; `none` is the value that is sent for an empty field.
const FIELDS = [
    { name: "name", label: "Name", required: true, maxlength: 200 },
    { name: "slug", label: "Slug", fixed: true, required: true, maxlength: 64, hint: "Names the plan in addresses: a–z, 0–9 and dashes" },
    { name: "price", label: "Price", required: true, inputmode: "decimal", hint: "For one cycle, such as 19.90; for new subscriptions" },
    { name: "currency", label: "Currency", maxlength: 3, none: null, hint: "Such as USD. With a currency, the service bills new subscriptions" },
    { name: "billing_cycle", label: "Billing cycle", required: true, list: CYCLES, hint: "One of the list, or a duration such as P18M" },
    { name: "trial_period", label: "Trial", none: null, hint: "Such as P14D; empty for none" },
    { name: "description", label: "Description", kind: "textarea", none: "", maxlength: 4000 },
    { name: "features", label: "Features", none: "", maxlength: 4000, hint: "Separated by commas" },
    { name: "tier", label: "Tier", type: "number", min: 0, max: 10000, none: 0, hint: "The rank; cards are in this order" },
    { name: "node_quota", label: "Node quota", type: "number", min: 0, none: 0 },
    { name: "product_id", label: "Product id", maxlength: 255, none: null, hint: "The product at the payment provider" },
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

// The form for a new plan, or for changes to a plan.
function edit(view, plan, attributes) {
    const fields = FIELDS.filter(({ fixed }) => !plan || !fixed);
    let version;
    // Only the fields that were changed here are sent, so that saving again keeps what others changed.
    const conflict = (now) => {
        version = now.version;
        return [wrong("Somebody else changed this plan meanwhile. Save again to write the fields that you changed."), comparison(plan, now)];
    };
    return confirmButton(view, plan ? "Edit" : "New plan", {
        title: plan ? `Edit ${plan.name}` : undefined, confirm: plan ? "Save" : "Create the plan", attributes,
        text: plan && "A new price holds for new subscriptions; those that the service bills keep theirs.",
        fields: () => {
            version = plan?.version;
            return el("div", { class: "fields" }, fields.map((field) => control(field, plan)));
        },
        act: async (form) => {
            if (!plan) return call("POST", "/subscription-plans", { body: changes(form, fields) });
            try {
                return await call("PUT", at(plan), { body: changes(form, fields, plan), ifMatch: `"${version}"` });
            } catch (error) {
                if (error.status === 412) error.nodes = conflict(await get(at(plan)));
                throw error;
            }
        },
        explain: (error, form) => error.nodes ?? explain(error, form, { view }),
    });
}

const withdraw = (view, plan) => confirmButton(view, plan.is_active ? "Withdraw" : "Offer again", {
    title: plan.is_active ? `Withdraw ${plan.name}` : `Offer ${plan.name} again`,
    text: plan.is_active ? "Nobody can subscribe to it any more. Its subscriptions continue." : "New subscriptions can have it again.",
    act: () => call("PUT", at(plan), { body: { is_active: !plan.is_active }, ifMatch: `"${plan.version}"` }),
});

const remove = (view, plan) => confirmButton(view, "Delete", {
    title: `Delete ${plan.name}`, danger: true, text: ["Its slug ", code(plan.slug), " is free again. It cannot be undone."],
    act: () => call("DELETE", at(plan), { ifMatch: `"${plan.version}"` }),
});
