// Calls of the JSON API, with the same routes, scopes and errors as for every client.

const KEY = "client-key";

// The settings of the server, and the client that is signed in.
export const session = { settings: null, client: null };

export const key = () => sessionStorage.getItem(KEY);
export const keepKey = (text) => sessionStorage.setItem(KEY, text);

export function forgetKey() {
    sessionStorage.removeItem(KEY);
    session.client = null;
}

// True if the client has this scope.
export const can = (scope) => !scope || session.client?.scopes.includes(scope);

// True if the server has this part: billing, webhooks, providers.
export const has = (part) => session.settings.capabilities.includes(part);

export const isUuid = (text) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);

// An error response, as problem+json.
export class Problem extends Error {
    constructor(body, status) {
        super(body.detail ?? `the response has the status ${status}`);
        Object.assign(this, { status, code: body.code ?? "unknown", request_id: body.request_id, body });
    }
}

export const unreachable = () => new Problem({ code: "unreachable", detail: "The server cannot be reached." }, 0);

// Fields with amounts: their digits are kept as text.
const AMOUNT = /^(price|mrr|at_risk|committed|trial)$|amount|credit/;

// Old browsers do not pass the source text of a number, so they show 9.00 as 9.
const parse = (text) => JSON.parse(text, (name, value, context) => (typeof value === "number" && AMOUNT.test(name) ? (context?.source ?? String(value)) : value));

// Calls the API. Returns the body of the response, and the ETag of the record.
export async function call(method, path, { query, body, ifMatch, signal, headers } = {}) {
    // Browsers resolve such segments of a path, and would call another route.
    if (/\/(\.|%2e){1,2}(\/|$)/i.test(path)) throw new Problem({ code: "not_found", detail: "There is no such record." }, 404);
    const search = String(params(query));
    const used = key();
    const sent = { "client-id": used || "console", ...headers };
    if (body !== undefined) sent["content-type"] = "application/json";
    if (ifMatch) sent["if-match"] = ifMatch;
    let answer, text, data;
    try {
        answer = await fetch(`..${path}${search && "?"}${search}`, {
            method, headers: sent, signal, body: JSON.stringify(body),
            cache: "no-store", credentials: "same-origin", redirect: "error", referrerPolicy: "no-referrer",
        });
        text = await answer.text();
    } catch (error) {
        throw signal?.aborted ? error : unreachable();
    }
    try {
        data = text ? parse(text) : null;
    } catch {
        throw new Problem({ code: "unreadable", detail: "The response is not JSON: another server is at this address." }, answer.status);
    }
    if (answer.ok) return { data, etag: answer.headers.get("etag") };
    const problem = new Problem(data ?? {}, answer.status);
    // If the user has signed out or changed the key meanwhile, this response says nothing about the present key.
    if (answer.status === 401 && used === key()) dispatchEvent(new CustomEvent("signed-out", { detail: problem }));
    throw problem;
}

export const get = async (path, query, signal) => (await call("GET", path, { query, signal })).data;

// All records of a list, a page of 200 at a time, up to `most`.
export async function* pages(path, query, signal, most = 10_000) {
    const wanted = params(query);
    for (let count = 0; count < most; ) {
        wanted.set("limit", Math.min(200, most - count));
        const page = await get(path, wanted, signal);
        count += page.data.length;
        yield page;
        if (!page.next_cursor) return;
        wanted.set("cursor", page.next_cursor);
    }
}

export async function all(path, signal, most) {
    const found = [];
    for await (const page of pages(path, {}, signal, most)) found.push(...page.data);
    return found;
}

// The time at the server, which a manual clock turns.
export const now = () => new Date(Date.now() + session.settings.offset);

export async function readSettings() {
    const settings = await get("/console/settings");
    session.settings = { ...settings, offset: settings.now ? Date.parse(settings.now) - Date.now() : 0 };
}

export async function readClient() {
    session.client = await get("/console/client");
}

// An idempotency key for a request. Pages without TLS have no `randomUUID`.
export const newKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

// The address after `#`, such as `#/subscriptions/ID?status=past_due`, is the state of a page: its segments and its query. From an invalid address come segments that no page has.
export function read() {
    const [path, query] = location.hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
    return { segments: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

function decode(text) {
    try {
        return decodeURIComponent(text);
    } catch {
        return text;
    }
}

// The address of a page.
export function href(segments, query) {
    const text = String(params(query));
    return `#/${[segments].flat().map(encodeURIComponent).join("/")}${text && "?"}${text}`;
}

// `query` is an object, or pairs where a name may be repeated; empty values are left out.
export function params(query) {
    const pairs = query?.[Symbol.iterator] ? [...query] : Object.entries(query ?? {});
    return new URLSearchParams(pairs.filter(([, value]) => (value ?? "") !== ""));
}

export function go(segments, query) {
    location.hash = href(segments, query);
}
