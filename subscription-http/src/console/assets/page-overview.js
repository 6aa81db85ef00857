// The overview: how the business does, and what needs a look.

import { can, get, has, href, now as clock, session } from "./api.js";
import { STATUSES, block, code, el, link, money, monthText, number, p, replace, soft, time, words } from "./el.js";
import { allPlans, columns, join } from "./page-subscriptions.js";
import { about, columns as upright, lines, plot, rows } from "./plot.js";
import { section, table } from "./table.js";

export default function (view) {
    view.title("Overview");
    const churn = el("div", { class: "tile" });
    // The plot by status is shown after the plots by month, or alone if those cannot be shown.
    let status = el("div");
    const rest = el("div", { class: "page" });
    const name = "figures";
    let read;
    const plans = () => (read ??= allPlans(view.signal).catch((error) => { read = null; throw error; }));
    rest.append(
        block(view, { scope: "payments:read", name, load: (signal) => figures("/stats/months", { months: 24 }, signal), show: (months) => {
            replace(churn, churnTile(months));
            return el("div", { class: "grid" }, monthly(months), status);
        } }),
        el("div", { class: "grid" }, status),
    );
    if (has("billing")) rest.append(
        section("Forecast", block(view, { scope: "subscriptions:read", name, load: (signal) => figures("/stats/forecast", {}, signal), show: forecast })),
        unreported(view),
    );
    if (can("subscriptions:read")) rest.append(
        few(view, plans, "Renews within 7 days", "Soonest first", week(), "None."),
        few(view, plans, "Past due or unpaid", "Newest first", [["status", "past_due"], ["status", "unpaid"]], "None."),
    );
    replace(churn, term("Churn", "churn", "churn"), value("–", can("payments:read") ? null : ["needs the scope ", code("payments:read")]));
    view.add(block(view, { scope: "subscriptions:read", name, load: (signal) => figures("/stats/now", {}, signal), show: (now) => {
        if (!STATUSES.some((status) => now.subscriptions[status])) {
            rest.remove();
            return firstSteps();
        }
        const figure = byStatus(now);
        status.replaceWith(figure);
        status = figure;
        return [
            tiles(now, churn),
            soft("Counted at ", time(now.as_of), ". Figures may be up to a minute old, those of the months ten."),
        ];
    } }), rest);
}

// Reads figures. If the server needs more than 20 seconds, it returns `overloaded` and continues to count, so the call is repeated.
export async function figures(path, query, signal) {
    try {
        return await get(path, new URLSearchParams(query), signal);
    } catch (error) {
        if (error.code === "overloaded") error.message = "The figures are still being counted: try again in a moment.";
        throw error;
    }
}

const term = (name, figure, text) => el("dt", {}, name, " ", about(figure, text));
const value = (text, ...notes) => el("dd", {}, el("strong", {}, text), notes.flat().some(Boolean) && el("small", {}, ...notes));
const tile = (name, [figure, counted], text, ...notes) => el("div", { class: "tile" }, term(name, figure, counted), value(text, ...notes));

// The difference of two amounts, in millionths.
export function minus(one, other) {
    const [a, b] = [one, other].map((text) => { const [whole, part = ""] = String(text).split("."); return BigInt(whole + part.padEnd(6, "0")); });
    const digits = String(a - b).padStart(7, "0");
    return `${digits.slice(0, -6)}.${digits.slice(-6)}`;
}

// The tiles with figures: one row, or, with several currencies, one row for each currency and one for the users.
function tiles({ money: sums, paying_users, subscriptions, with_access, blocked }, churn) {
    const of = (name, currency) => (sums.length > 1 ? `${name}, ${currency ?? "no currency"}` : name);
    const groups = [
        sums.length ? [] : tile("MRR", ["mrr", "MRR"], "0"),
        ...sums.map(({ currency, mrr, at_risk, committed }) => [
            tile(of("MRR", currency), ["mrr", "MRR"], money(mrr, currency)),
            tile(of("At risk", currency), ["at-risk", "MRR at risk"], money(at_risk, currency), "of MRR; ", link(href("subscriptions", { status: "past_due" }), "past due")),
            tile(of("Not committed", currency), ["committed", "committed MRR"], money(minus(mrr, committed), currency), "of MRR; will not renew"),
        ]),
        [tile("Paying users", ["paying-users", "paying users"], number(paying_users), `${number(with_access)} ${with_access === 1 ? "subscription gives" : "subscriptions give"} access`, blocked > 0 && `, ${number(blocked)} are blocked`),
        tile("On trial", ["trial", "a trial"], number(subscriptions.on_trial ?? 0), sums.filter(({ trial }) => Number(trial) > 0).map(({ trial, currency }) => `${money(trial, currency)} a month if they stay. `), link(href("subscriptions", { status: "on_trial" }), "show")), churn],
    ];
    return (sums.length > 1 ? groups.slice(1) : [groups.flat()]).map((group) => el("dl", { class: "tiles" }, group));
}

const percent = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 2 });

function churnTile({ data }) {
    const last = data.findLast(({ complete }) => complete);
    if (!last) return [term("Churn", "churn", "churn"), value("–", "no month is over yet")];
    const before = last.paying_users - last.new_users - last.returned_users + last.churned_users;
    return [term(`Churn, ${monthText(last.month)}`, "churn", "churn"), value(last.churn_rate === null ? "–" : percent.format(last.churn_rate), before ? `${number(last.churned_users)} of ${number(before)} users` : "nobody paid before")];
}

const byStatus = ({ subscriptions }) => plot(rows, {
    title: "Subscriptions by status", info: ["status", "subscriptions"], file: "subscriptions-by-status", first: "Status", labels: STATUSES.map(words), keys: STATUSES,
    label: `Subscriptions by status: ${STATUSES.filter((status) => subscriptions[status]).map((status) => `${number(subscriptions[status])} ${words(status)}`).join(", ")}.`,
    cell: (at) => link(href("subscriptions", { status: STATUSES[at] }), words(STATUSES[at])),
    series: [{ name: "Subscriptions", tone: 1, values: STATUSES.map((status) => subscriptions[status] ?? 0), show: number }],
});

const TONES = { succeeded: 1, partially_refunded: 2, disputed: 8, processing: 7, pending: 3, failed: 5, canceled: 6, refunded: 4 };

const currenciesOf = (months, list) => [...new Set(months.flatMap((month) => month[list].map(({ currency }) => currency)))].sort();

// The plots by month, from the first month that has a paying user, a churned user or a payment.
function monthly({ data, without_period }) {
    const begin = data.findIndex(({ paying_users, churned_users, payments }) => paying_users || churned_users || payments.length);
    const months = data.slice(begin < 0 ? -1 : begin);
    const last = months.at(-1);
    const chart = { first: "Month", labels: months.map(({ month }) => monthText(month)), keys: months.map(({ month }) => month), open: !last.complete };
    const span = `by month from ${chart.labels[0]} to ${chart.labels.at(-1)}`;
    const users = (name, field, tone, more) => ({ name, tone, values: months.map((month) => month[field]), show: number, ...more });
    return [
        currenciesOf(months, "money").map((currency) => {
            const values = (field) => months.map((month) => month.money.find((sum) => sum.currency === currency)?.[field] ?? "0");
            const show = (amount) => money(amount, currency);
            return plot(lines, {
                ...chart, title: `MRR by month, ${currency ?? "no currency"}`, info: ["mrr", "MRR"], file: `mrr-${currency ?? "none"}`,
                label: `MRR ${span}: ${show(values("mrr").at(-1))} in the last, of it ${show(values("at_risk").at(-1))} at risk.`,
                series: [{ name: "MRR", tone: 1, values: values("mrr"), show }, { name: "At risk", tone: 5, dashed: true, values: values("at_risk"), show }],
            });
        }),
        plot(upright, {
            ...chart, whole: true, title: "Users who came and left", info: ["new-users", "new and returned users"], file: "users-by-month",
            label: `Users ${span}: in the last ${number(last.paying_users)} paying.`,
            series: [
                users("New", "new_users", 3), users("Returned", "returned_users", 4), users("Left", "churned_users", 5, { below: true }), users("Paying", "paying_users", 1, { aside: true }),
                users("Churn", "churn_rate", 1, { aside: true, show: (rate) => (rate === null ? "–" : percent.format(rate)) }),
            ],
        }),
        currenciesOf(months, "payments").map((currency) => {
            const of = (month, status) => month.payments.find((sum) => sum.currency === currency && sum.status === status);
            const there = Object.keys(TONES).filter((status) => months.some((month) => of(month, status)));
            return plot(upright, {
                ...chart, title: `Payments by month, ${currency ?? "no currency"}`, info: ["payments", "payments"], file: `payments-${currency ?? "none"}`,
                label: `Payments ${span}.`,
                series: there.map((status) => ({
                    name: words(status), tone: TONES[status], beside: status === "refunded", values: months.map((month) => of(month, status)?.amount ?? "0"),
                    show: (amount, at) => (of(months[at], status) ? `${money(amount, currency)} (${number(of(months[at], status).count)})` : "–"),
                })),
            });
        }),
        without_period > 0 && el("p", { class: "card" }, `Payments without a period: ${number(without_period)}. They are not in MRR and users by month. `, about("without-period", "payments without a period")),
    ];
}

// The payments that the clock will create, by currency.
function forecast({ data, not_included }) {
    const others = not_included.caller + not_included.provider;
    return [
        currenciesOf(data, "money").map((currency) => {
            const part = (name, field) => ({ name, kind: "number", cell: (month) => {
                const sum = month.money.find((one) => one.currency === currency)?.[field];
                return sum?.count ? `${money(sum.amount, currency)} (${number(sum.count)})` : "–";
            } });
            return table(`Payments in ${currency}`, [{ name: "Month", cell: ({ month }) => monthText(month) }, part("Contracted", "contracted"), part("At risk", "at_risk"), part("Trial", "trial")], data);
        }),
        soft(others > 0 && `Not included: ${number(others)} the clock does not manage. `, about("forecast", "the forecast")),
    ];
}

// The payments that are due and not reported, whether a collector has begun to collect them or not.
function unreported(view) {
    const load = async (signal) => (await Promise.all(["pending", "processing"].map((status) => get("/due-payments", { status, limit: 200 }, signal))))
        .flatMap(({ data }) => data.map(({ due_at }) => due_at)).sort();
    const show = (due) => due[0] && p(`${number(due.length)}${due[199] ? " or more" : ""}, the oldest since `, time(due[0]), ".");
    return section("Payments to be reported", block(view, { scope: "payments:read", name: "payments", load, show, empty: "None." }));
}

// Today and the six days after it.
function week() {
    const day = (after) => new Date(clock().getTime() + after * 86_400_000).toISOString().slice(0, 10);
    return [["status", "active"], ["status", "on_trial"], ["renews_after", day(0)], ["renews_before", day(7)], ["sort", "renews_at"]];
}

const FEW = 10;

// The first subscriptions of a list, and a link to all.
function few(view, plans, title, caption, query, empty) {
    return section(title, block(view, {
        scope: "subscriptions:read", name: "subscriptions", empty,
        load: async (signal) => {
            const wanted = new URLSearchParams(query.map(([name, value]) => [name, name.startsWith("renews_") ? `${value}T00:00:00Z` : value]));
            wanted.set("limit", FEW);
            const page = await get("/subscriptions", wanted, signal);
            return { page, context: await join(page.data, await plans(), signal) };
        },
        show: ({ page, context }) => page.data.length ? [table(caption, columns, page.data, context), p(link(href("subscriptions", query), page.has_more ? `Only the first ${FEW}: show all` : "Show in the list"))] : null,
    }));
}

// A first plan, subscription and payment by curl.
function firstSteps() {
    const api = new URL("..", location.href.split("#")[0]).href.slice(0, -1).replaceAll("'", "%27");
    const development = session.settings.mode === "development";
    const user = development && session.settings.users !== "any" ? `user=$(call "$api/authentication/sign-up" -d '{"access_token": "any", "email": "ada@example.com"}' | field auth_id)` : "user=ID-OF-A-USER";
    const step = (title, text) => el("li", {}, title, el("pre", { tabindex: "0" }, text));
    return section("Nothing is sold yet",
        el("ol", {},
            step("A plan", `api='${api}'\ncall() { curl -sS -H 'client-id: ${development ? "console" : "YOUR-KEY"}' -H 'content-type: application/json' "$@"; }\nfield() { grep -o "\\"$1\\":\\"[^\\"]*" | head -n 1 | cut -d '"' -f 4; }\nplan=$(call "$api/subscription-plans" -d '{"name": "Pro", "slug": "pro", "price": 19.90, "currency": "USD", "billing_cycle": "monthly"}' | field id)`),
            step("A subscription of a user", `${user}\nsubscription=$(call "$api/subscriptions" -d "{\\"user_id\\": \\"$user\\", \\"subscription_plan_id\\": \\"$plan\\"}" | field id)`),
            has("billing") && step("Its payment", `payment=$(call "$api/due-payments" | field id)\ncall -X PUT "$api/subscription-payments/$payment" -d '{"status": "succeeded"}'`)),
        p("Or look at two years of an invented business: ", code("subscription-http --database sqlite://demo.db demo"), " fills an empty database."));
}
