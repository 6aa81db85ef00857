// Lost connections, a busy server and expired tokens: a proxy in front of the real server fails.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { Problem, Subscriptions, type Tokens } from "../index.ts";
import { proxy, type Proxy, type Server, start } from "./server.ts";

let server: Server;
let network: Proxy;
let api: Subscriptions;
const waits: number[] = [];

before(async () => {
  server = await start();
  network = await proxy(server.url);
  api = new Subscriptions({ baseUrl: network.url, clientId: "tests" });
  // The waits of the client are recorded and a hundred times shorter, but one of a minute never ends. Timers of
  // fetch stay as they are.
  const real = globalThis.setTimeout;
  const shortened = (done: () => void, wait: number, ...more: unknown[]) => {
    if (!new Error().stack?.split("\n")[2]?.includes("/typescript/index.ts")) return real(done, wait, ...more);
    waits.push(wait);
    return wait === 60_000 ? real(done, 2 ** 30).unref() : real(done, wait / 100);
  };
  globalThis.setTimeout = shortened as typeof setTimeout;
});
beforeEach(() => [network.requests, network.failures, waits].forEach((list) => list.splice(0)));
after(() => Promise.all([network.stop(), server.stop()]));

const problem = (code: Problem["code"]) => (failure: unknown) => failure instanceof Problem && failure.code === code;
const plan = (slug: string) => ({ name: slug, slug, price: "1", billing_cycle: "monthly" });
const sent = (name: string) => network.requests.map((request) => request.headers[name]);
const busy = (status: number, after: number) => {
  const headers = { "content-type": "application/problem+json", "retry-after": String(after) };
  const body = { type: "about:blank", title: "busy", status, detail: "busy", code: "overloaded", request_id: "1" };
  return { status, headers, body: JSON.stringify(body) };
};

test("a busy server is asked again after the time that it names", async () => {
  network.failures.push(busy(503, 7), busy(429, 3), busy(408, 1));

  await api.plans.create(plan("busy"));

  assert.deepEqual(waits, [7000, 3000, 1000]);
  assert.equal(network.requests.length, 4);
  assert.equal(new Set(sent("idempotency-key")).size, 1);
});

test("after three retries the problem is thrown", async () => {
  network.failures.push(busy(503, 1), busy(503, 1), busy(503, 1), busy(503, 1));

  await assert.rejects(api.plans.list(), (failure) => problem("overloaded")(failure) && (failure as Problem).status === 503);

  assert.equal(network.requests.length, 4);
});

test("nobody is made to wait for longer than a minute", async () => {
  network.failures.push(busy(429, 61));

  await assert.rejects(api.plans.list(), problem("overloaded"));

  assert.deepEqual([network.requests.length, waits], [1, []]);
});

test("other failures are thrown at once", async () => {
  network.failures.push(busy(500, 1), { status: 502, headers: { "content-type": "text/html" }, body: "<h1>Bad gateway</h1>" });

  await assert.rejects(api.plans.list(), problem("overloaded"));
  await assert.rejects(api.plans.list(), (failure) => problem("not_json")(failure) && (failure as Problem).status === 502);
  await assert.rejects(api.plans.get("none"), problem("not_found"));

  assert.equal(network.requests.length, 3);
});

test("a create whose answer is lost creates one record", async () => {
  network.failures.push("lost before", "lost after");

  const created = await api.plans.create({ ...plan("lost"), product_id: "lost" });

  assert.equal(network.requests.length, 3);
  assert.equal(new Set(sent("idempotency-key")).size, 1);
  assert.deepEqual((await api.plans.list({ product_id: "lost" })).data.map((one) => one.id), [created.id]);
  assert.deepEqual(waits, [500, 1000]);
});

test("each create has a key of its own, or the caller's", async () => {
  await api.plans.create(plan("key-1"));
  await api.plans.create(plan("key-2"));
  const first = await api.plans.create(plan("key-3"), { idempotencyKey: "order-4711" });
  const second = await api.plans.create(plan("key-3"), { idempotencyKey: "order-4711" });
  await api.plans.update("key-3", { tier: 1 });

  const keys = sent("idempotency-key");
  assert.notEqual(keys[0], keys[1]);
  assert.match(String(keys[0]), /^[0-9a-f-]{36}$/);
  assert.deepEqual(keys.slice(2), ["order-4711", "order-4711", undefined]);
  assert.deepEqual(second, first);
});

test("a server that is gone is a problem too", async () => {
  const gone = await proxy(server.url);
  await gone.stop();

  const nobody = new Subscriptions({ baseUrl: gone.url, clientId: "tests" });

  await assert.rejects(nobody.plans.list(), (failure) => problem("connection_lost")(failure) && (failure as Problem).cause instanceof TypeError);
  assert.deepEqual(waits, [500, 1000, 2000]);
});

test("a caller who cancels does not wait", async () => {
  network.failures.push(busy(503, 60), busy(503, 60));
  const controller = new AbortController();
  const reason = new Error("the page was left");

  const pending = api.plans.list({}, { signal: controller.signal });
  while (!waits.length) await new Promise(setImmediate);
  controller.abort(reason);

  await assert.rejects(pending, reason);
  assert.equal(network.requests.length, 1);
});

/** A person with an expired access token, and clients that share the place of the tokens as tabs do. */
async function tabs(name: string, count: number) {
  const session = await api.auth.signUp({ access_token: "any", email: `${name}@example.com` });
  let current: Tokens = { ...session, access_token: await server.expired(session.access_token) };
  const tokens = { get: async () => current, set: async (next: Tokens) => void (current = next) };
  const clients = Array.from({ length: count }, () => new Subscriptions({ baseUrl: network.url, clientId: "tests", tokens }));
  network.requests.splice(0);
  return { session, clients, current: () => current };
}
const refreshes = () => network.requests.filter((request) => request.path === "/authentication/refresh-token").length;

test("calls that find the token expired share one refresh", async () => {
  const { session, clients, current } = await tabs("shared", 1);
  const [browser] = clients as [Subscriptions];

  const answers = await Promise.all([browser.auth.loggedIn(), browser.auth.sessions(), browser.auth.loggedIn()]);

  assert.equal(answers[0].auth_id, session.auth_id);
  assert.equal(refreshes(), 1);
  assert.notEqual(current()?.refresh_token, session.refresh_token);
  await browser.auth.loggedIn();
  assert.equal(refreshes(), 1);
});

test("tabs share one refresh where the browser has locks", async () => {
  let last: Promise<unknown> = Promise.resolve();
  const names: string[] = [];
  const request = (name: string, work: () => Promise<void>) => (names.push(name), (last = last.then(work)));
  Object.defineProperty(navigator, "locks", { value: { request }, configurable: true });
  const { clients } = await tabs("locks", 2);

  await Promise.all(clients.map((tab) => tab.auth.loggedIn())).finally(() => Reflect.deleteProperty(navigator, "locks"));

  assert.deepEqual([refreshes(), names], [1, ["refresh tests", "refresh tests"]]);
});

test("a session that has ended is forgotten", async () => {
  const { session, clients, current } = await tabs("ended", 1);
  const [browser] = clients as [Subscriptions];
  const other = new Subscriptions({ baseUrl: server.url, clientId: "tests", tokens: { get: () => session, set: () => {} } });
  await other.auth.revokeAll();

  await assert.rejects(browser.auth.loggedIn(), problem("session_revoked"));

  assert.equal(current(), null);
});
