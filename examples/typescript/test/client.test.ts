// The client against the real server.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Problem, Subscriptions, type Tokens } from "../index.ts";
import { type Server, start } from "./server.ts";

let server: Server;
let api: Subscriptions;

before(async () => {
  server = await start("--self-service", "cancel,resume");
  api = new Subscriptions({ baseUrl: server.url, clientId: "tests" });
});
after(() => server.stop());

const problem = (code: Problem["code"]) => (failure: unknown) => failure instanceof Problem && failure.code === code;
const plan = (slug: string) => ({ name: slug, slug: slug.replaceAll(".", "-"), price: "1", billing_cycle: "monthly" });

async function subscription(name: string) {
  const user = await api.auth.signUp({ access_token: "any", email: `${name}@example.com` });
  const { id } = await api.plans.create(plan(`of-${name}`));
  return api.subscriptions.create({ user_id: user.auth_id, subscription_plan_id: id });
}

test("amounts survive a write and a read digit for digit", async () => {
  const { id } = await subscription("digits");
  for (const [nth, digits] of ["0.10", "123456789012345.123456", "0", "19.900000", "7"].entries()) {
    const slug = `digits-${nth}`;

    const created = await api.plans.create({ ...plan(slug), price: digits });
    const read = await api.plans.get(slug);
    const updated = await api.plans.update(slug, { price: read.price });
    const page = await api.plans.list({ sort: "-created_at", limit: 1 });

    assert.deepEqual([created.price, read.price, updated.price, page.data[0]?.price], Array(4).fill(digits));
    assert.equal(updated.version, 1, "the same price is no change");
  }
  const payment = await api.payments.create({ subscription_id: id, amount: "123456789012345.10", currency: "USD" });
  assert.equal((await api.payments.get(payment.id)).amount, "123456789012345.10");
  // @ts-expect-error a number may have lost digits before it is sent
  await api.plans.create({ ...plan("number"), price: 0.1 });
});

test("a quantity is changed for the amount of its preview, digit for digit", async () => {
  const user = await api.auth.signUp({ access_token: "any", email: "seats@example.com" });
  const seats = await api.plans.create({ ...plan("seats"), price: "10.10", currency: "EUR" });
  const { id } = await api.subscriptions.create({ user_id: user.auth_id, subscription_plan_id: seats.id });
  for await (const { id: payment } of api.subscriptions.payments(id)) await api.payments.update(payment, { status: "succeeded" });

  const { at, amount_due, next_amount } = await api.subscriptions.previewPlan(id, { quantity: 2 });
  await assert.rejects(api.subscriptions.changePlan(id, { quantity: 2, at, amount_due: "1" }), (failure) => {
    return problem("quote_changed")(failure) && (failure as Problem).body?.quote?.amount_due === "10.10";
  });
  const changed = await api.subscriptions.changePlan(id, { quantity: 2, at, amount_due, next_amount });

  assert.deepEqual([amount_due, next_amount, changed.quantity, changed.price], ["10.10", "20.20", 2, "10.10"]);
});

test("all pages of a list are read, each record once", async () => {
  const slugs = Array.from({ length: 7 }, (_, nth) => `page-${nth}`);
  for (const slug of slugs) await api.plans.create({ ...plan(slug), product_id: "pages" });

  const read: string[] = [];
  for await (const { slug } of api.plans.all({ product_id: "pages", sort: "name", limit: 3 })) read.push(slug);

  assert.deepEqual(read, slugs);
  const first = await api.plans.list({ product_id: "pages", sort: "name", limit: 3 });
  const second = await api.plans.list({ product_id: "pages", sort: "name", limit: 3, cursor: first.next_cursor ?? "" });
  assert.deepEqual([first.has_more, second.data[0]?.slug], [true, "page-3"]);
});

test("a filter may have several values, and its text any characters", async () => {
  const { id } = await subscription("filter");
  await api.subscriptions.update(id, { status: "past_due", external_subscription_id: "a&b=c d/ü" });

  const found = await api.subscriptions.list({ status: ["past_due", "unpaid"], external_subscription_id: "a&b=c d/ü", cursor: undefined });

  assert.deepEqual(found.data.map((one) => one.id), [id]);
});

test("a problem has the code, every fault and the id of the request", async () => {
  // @ts-expect-error the compiler finds the missing field first
  const refused = api.plans.create({ name: "", slug: "No", price: "x" });

  await assert.rejects(refused, (failure) => {
    assert(failure instanceof Problem && failure instanceof Error);
    assert.deepEqual([failure.status, failure.code], [422, "validation_failed"]);
    assert.deepEqual(failure.errors.map((fault) => fault.field).sort(), ["billing_cycle", "name", "price", "slug"]);
    assert.match(failure.requestId ?? "", /./);
    assert.match(failure.message, /^422 validation_failed: .*billing_cycle is required/);
    return true;
  });
  await assert.rejects(api.plans.get("none/../none"), problem("path_invalid"));
  await assert.rejects(api.plans.get("none"), problem("not_found"));
});

test("a change for another version is refused and names the current one", async () => {
  const { version } = await api.plans.create(plan("versions"));
  await api.plans.update("versions", { tier: 1 }, { ifVersion: version });

  await assert.rejects(api.plans.update("versions", { tier: 2 }, { ifVersion: version }), (failure) => {
    return problem("precondition_failed")(failure) && (failure as Problem).body?.current_version === version + 1;
  });
  await assert.rejects(api.plans.delete("versions", { ifVersion: version }), problem("precondition_failed"));
  assert.equal(await api.plans.delete("versions", { ifVersion: version + 1 }), undefined);
});

test("a session is stored, used and forgotten", async () => {
  const stored: unknown[] = [];
  let current: { access_token: string; refresh_token: string } | null = null;
  const tokens = { get: () => current, set: (next: typeof current) => void stored.push((current = next)) };
  const browser = new Subscriptions({ baseUrl: server.url, clientId: "browser", tokens });
  await assert.rejects(browser.auth.loggedIn(), problem("token_missing"));

  const session = await browser.auth.signUp({ access_token: "any", email: "session@example.com" });
  const again = await browser.auth.signIn({ access_token: "any", email: "session@example.com" });

  assert.equal((await browser.auth.loggedIn()).auth_id, session.auth_id);
  assert.equal((await browser.auth.sessions()).data.length, 2);
  assert.deepEqual(await browser.auth.revokeOthers(), { revoked: 1 });
  assert.deepEqual(await browser.auth.logout(), { revoked: 1 });
  assert.deepEqual(stored, [session, again, null]);
  await browser.auth.signIn({ access_token: "any", email: "session@example.com" });
  assert.equal(await browser.auth.deleteAccount(session.auth_id), undefined);
  assert.equal(current, null);
  await assert.rejects(browser.auth.signIn({ access_token: "any", email: "session@example.com" }), problem("account_not_found"));
});

test("payments of a subscription and users are listed page by page", async () => {
  const { id, user_id } = await subscription("pages");
  const created: string[] = [];
  for (const amount of ["0.10", "2", "3.00"]) created.unshift((await api.payments.create({ subscription_id: id, amount, currency: "EUR" })).id);
  const other = (await subscription("pages.two")).user_id;

  const payments = [];
  for await (const payment of api.subscriptions.payments(id, { limit: 2 })) payments.push(payment);
  const ofUser = [];
  for await (const payment of api.users.payments(user_id, { limit: 1 })) ofUser.push(payment);
  const users = [];
  for await (const user of api.users.all({ email_starts_with: "pages", limit: 1 })) users.push(user.id);

  assert.deepEqual(payments.map((one) => [one.id, one.amount]), [[created[0], "3.00"], [created[1], "2"], [created[2], "0.10"]]);
  assert.deepEqual(ofUser, payments);
  assert.deepEqual(users.sort(), [user_id, other].sort());
});

test("a backend asks what a user may do, and ends their sessions", async () => {
  const { user_id, subscription_plan_id } = await subscription("access");

  const access = await api.users.entitlement(user_id, { feature: "sso" });

  assert.deepEqual([access.has_access, access.has_feature, access.grants[0]?.plan.id], [true, false, subscription_plan_id]);
  assert.equal((await api.users.entitlement(user_id)).has_feature, undefined);
  assert.equal((await api.users.get(user_id)).email, "access@example.com");
  assert.equal((await api.users.sessions(user_id)).data.length, 1);
  assert.deepEqual(await api.users.revokeSessions(user_id), { revoked: 1 });
  assert.deepEqual((await api.users.sessions(user_id)).data, []);
});

test("a person sees their access and subscriptions, cancels, resumes and goes to pay", async () => {
  let current: Tokens = null;
  const tokens = { get: () => current, set: (next: Tokens) => void (current = next) };
  const browser = new Subscriptions({ baseUrl: server.url, clientId: "browser", tokens });
  const { auth_id } = await browser.auth.signUp({ access_token: "any", email: "me@example.com" });
  const { id } = await api.plans.create({ ...plan("mine"), price: "0.10", features: "sso", href: "https://shop.example/buy" });
  const created = await api.subscriptions.create({ user_id: auth_id, subscription_plan_id: id });

  const access = await browser.me.entitlement({ feature: "sso" });
  const mine = [];
  for await (const one of browser.me.subscriptions({ status: ["active"], limit: 1 })) mine.push(one);

  assert.deepEqual([access.user_id, access.has_access, access.has_feature], [auth_id, true, true]);
  assert.deepEqual(mine.map((one) => [one.id, one.plan.price, one.actions]), [[created.id, "0.10", ["cancel"]]]);
  assert.equal((await browser.me.cancel(created.id)).status, "cancelled");
  assert.equal((await browser.me.resume(created.id)).ends_at, null);
  await assert.rejects(browser.me.cancel((await subscription("not-mine")).id), problem("not_found"));
  const url = `https://shop.example/buy?user_id=${auth_id}`;
  assert.deepEqual([(await browser.me.checkoutLink("mine")).url, (await api.plans.checkoutLink("mine", auth_id)).url], [url, url]);
});

test("a subscription is paused, resumed and cancelled", async () => {
  const { id, version } = await subscription("verbs");

  const paused = await api.subscriptions.pause(id, { resumes_at: "2030-01-01T00:00:00Z" }, { ifVersion: version });
  const resumed = await api.subscriptions.resume(id);
  const cancelled = await api.subscriptions.cancel(id, { effective: "now" });

  assert.deepEqual([paused.status, resumed.status, cancelled.status], ["paused", "active", "expired"]);
  assert.deepEqual([paused.managed_by, paused.price, paused.resumes_at], ["caller", null, "2030-01-01T00:00:00.000000Z"]);
  await assert.rejects(api.subscriptions.resume(id), problem("invalid_transition"));
  await assert.rejects(api.subscriptions.unschedule(id), problem("not_found"));
});

test("events are read from the beginning and followed as they happen", async () => {
  const { last } = await api.events.list({ limit: 1 });
  const history: string[] = [];
  await api.plans.create(plan("event-0"));

  for await (const event of api.events.follow({ after: last, type: ["plan.*"], limit: 1 })) {
    assert(event.sequence > last);
    history.push(event.type);
    if (history.length === 3) break;
    // Not awaited: the next request is there before the event, and waits for it.
    void api.plans.create(plan(`event-${history.length}`));
  }

  assert.deepEqual(history, Array(3).fill("plan.created"));
});

test("any operation can be called by its path", async () => {
  const { id } = await subscription("call");

  const read = await api.call("GET", "/subscriptions/{id}", { path: { id } });

  assert.equal(read.id, id);
  assert.equal((await api.call("GET", "/health/live")).status, "live");
  // @ts-expect-error there is no list of payments
  await assert.rejects(api.call("GET", "/subscription-payments"), problem("method_not_allowed"));
});
