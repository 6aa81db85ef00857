// The dialog that changes the plan of a subscription: the user chooses, sees the quote, and accepts exactly this quote.

import { Problem, call, now } from "./api.js";
import { ask, explain, once, result } from "./dialog.js";
import { CYCLES, boxes, cycle, date, el, input, labelled, lineFacts, money, p, period, planName, replace, select, soft, terms, wrong } from "./el.js";
import { facts } from "./table.js";

export function planChange(context, { name: title }) {
    const { record, plans, path, view } = context;
    const request = once();
    const area = el("div", { role: "status" });
    let seen = null;
    let asked = 0;
    let answer;

    // The quote for the chosen plan, cycle and quantity. Only the last quote that was requested is shown.
    const quote = async (form) => {
        const chosen = choice(form, record);
        const turn = (asked += 1);
        seen = null;
        if (!chosen.subscription_plan_id && !chosen.billing_cycle && !chosen.quantity) {
            return replace(area, soft("Choose another plan, billing cycle or quantity to see what it costs."));
        }
        area.ariaBusy = "true";
        try {
            const { data } = await call("POST", `${path}/change-plan/preview`, { body: chosen, signal: view.signal });
            if (turn === asked) see(chosen, data);
        } catch (error) {
            if (turn === asked && !view.signal.aborted) replace(area, explain(error, form, context));
        }
        if (turn === asked) area.ariaBusy = null;
    };
    const see = (chosen, quote) => {
        seen = { text: JSON.stringify(chosen), quote };
        replace(area, el("h3", {}, "Costs"), quoteFacts(quote, plans));
    };

    return ask(context, {
        title,
        body: (form) => {
            form.addEventListener("change", () => {
                form.elements.proration[0].closest("fieldset").hidden = form.elements.effective.value !== "now";
                quote(form);
            });
            // The values of the fields can be read only once the fields are in the form.
            queueMicrotask(() => quote(form));
            return [fields(record, plans), area];
        },
        act: async (form) => {
            const chosen = choice(form, record);
            if (seen?.text !== JSON.stringify(chosen)) {
                await quote(form);
                throw new Problem({ code: "quote_not_seen", detail: seen ? "Look at the quote, then press again." : "There is no quote to accept yet: see above." }, 0);
            }
            const { at, amount_due, next_amount, credit_after } = seen.quote;
            answer = await request(context, "POST", "/change-plan", { ...chosen, at, amount_due, next_amount, credit_after });
        },
        explain: (error, form) => {
            if (error.code !== "quote_changed") return explain(error, form, context);
            see(choice(form, record), error.body.quote);
            return wrong("The costs have changed, or the quote was too old. Nothing was done. The new quote is above: to accept it, press again.");
        },
        done: () => result(context, answer),
    });
}

function fields(record, plans) {
    const own = planName(record.subscription_plan_id, plans);
    const offered = plans.filter((plan) => plan.is_active).map(({ id, name, slug, price, currency, billing_cycle }) => [id, `${name} (${slug}), ${money(price, currency)} ${cycle(billing_cycle)}`]);
    const later = Date.parse(record.renews_at) > now() ? [["period_end", ["when the period ends, on ", date(record.renews_at)]]] : [];
    return [
        p(`Now: ${own}, ${terms(record)}.`),
        labelled("Plan", select("subscription_plan_id", [["", `keep ${own} and its price`], ...offered])),
        labelled("Billing cycle", select("billing_cycle", [["", "that of the plan"], ...CYCLES.map((name) => [name, cycle(name)])]), "The price is for one cycle and is not converted."),
        input("Quantity", { type: "number", name: "quantity", min: 1, max: 1000000, required: true, value: record.quantity }),
        boxes("It changes", "radio", "effective", [["now", "now"], ...later], ["now"]),
        boxes("The rest of the running period", "radio", "proration", [["prorated", "is settled: the unused part is credited, the new price is charged"], ["none", "costs nothing more: the new price is for the next period on"]], ["prorated"]),
    ];
}

// The fields of the request: only those that differ from the record.
function choice(form, record) {
    const { subscription_plan_id, billing_cycle, quantity, effective, proration } = Object.fromEntries(new FormData(form));
    return {
        ...(subscription_plan_id && { subscription_plan_id }),
        ...(billing_cycle && { billing_cycle }),
        ...(quantity && Number(quantity) !== record.quantity && { quantity: Number(quantity) }),
        effective,
        ...(effective === "now" && { proration }),
    };
}

function quoteFacts(quote, plans) {
    const amount = (value) => money(value, quote.currency);
    return [facts([
        ["Plan then", `${planName(quote.subscription_plan_id, plans)}, ${terms(quote)}`],
        ...lineFacts(quote.lines, quote.currency),
        ["Credit before", amount(quote.credit_before)],
        ["To pay now", el("strong", {}, amount(quote.amount_due))],
        ["Credit afterwards", amount(quote.credit_after)],
        ["Period then", period(quote.period_start, quote.period_end)],
        ["Renews", quote.renews_at ? date(quote.renews_at) : "never"],
        ["Next payment", amount(quote.next_amount)],
    ]), soft(quote.effective === "now" ? "It changes at once. " : "It is scheduled, and can be dropped until then. ", "The quote holds for 15 minutes.")];
}
