// Calls of the JSON API: the same routes, the same scopes and the same errors as for everybody.

const KEY = "client-key";

// Settings of the server and the client that is signed in.
export const session = { settings: null, client: null };

export const key = () => sessionStorage.getItem(KEY);
export const keepKey = (text) => sessionStorage.setItem(KEY, text);

export function forgetKey() {
    sessionStorage.removeItem(KEY);
    session.client = null;
}

// True if the client may do what needs this scope.
export const can = (scope) => !scope || (session.client?.scopes ?? []).includes(scope);

// True if the server has this part: billing, webhooks, providers.
export const has = (capability) => (session.settings?.capabilities ?? []).includes(capability);

export const isUuid = (text) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);

// An error response, as problem+json.
export class Problem extends Error {
    constructor(body, status) {
        super(body.detail ?? `the server answered ${status}`);
        Object.assign(this, { status, code: body.code ?? "unknown", request_id: body.request_id, body });
    }
}

// Fields with amounts: their digits are kept as text.
const AMOUNTS = new Set(["price", "amount", "credit", "amount_due", "next_amount", "credit_before", "credit_after", "mrr", "at_risk", "committed", "trial"]);

function parse(text) {
    // Old browsers give no source, and write 9.00 as 9.
    return JSON.parse(text, (name, value, context) => (typeof value === "number" && AMOUNTS.has(name) ? (context?.source ?? String(value)) : value));
}

// Calls the API. Gives the body, with the record's ETag and the status.
export async function call(method, path, { query, body, ifMatch, signal, headers } = {}) {
    // Browsers resolve these segments, and would call another route.
    if (/\/(\.|%2e){1,2}(\/|$)/i.test(path)) throw new Problem({ code: "not_found", detail: "There is no such record." }, 404);
    const text = query && new URLSearchParams(query).toString();
    const used = key();
    const sent = { "client-id": used || "console", ...headers };
    if (body !== undefined) sent["content-type"] = "application/json";
    if (ifMatch) sent["if-match"] = ifMatch;
    let answer, read;
    try {
        answer = await fetch(`..${path}${text ? `?${text}` : ""}`, {
            method, headers: sent, signal, body: body === undefined ? undefined : JSON.stringify(body),
            cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
        });
        read = await answer.text();
    } catch (error) {
        if (signal?.aborted) throw error;
        throw new Problem({ code: "unreachable", detail: "The server cannot be reached." }, 0);
    }
    let data = null;
    try {
        data = read ? parse(read) : null;
    } catch {
        throw new Problem({ code: "unreadable", detail: "The answer is not JSON: something else answers at this address." }, answer.status);
    }
    if (answer.ok) return { data, etag: answer.headers.get("etag"), status: answer.status };
    const problem = new Problem(data ?? {}, answer.status);
    // An answer to a key that was given up meanwhile says nothing about the present one.
    if (answer.status === 401 && used === key()) dispatchEvent(new CustomEvent("signed-out", { detail: problem }));
    throw problem;
}

export const get = async (path, query, signal) => (await call("GET", path, { query, signal })).data;

// All records of a list, a page of 200 at a time, up to `most`. The signal ends it.
export async function* pages(path, query, signal, most = 10_000) {
    const wanted = new URLSearchParams(query);
    for (let count = 0; count < most; ) {
        wanted.set("limit", String(Math.min(200, most - count)));
        const page = await get(path, wanted, signal);
        count += page.data.length;
        yield page;
        if (!page.next_cursor) return;
        wanted.set("cursor", page.next_cursor);
    }
}

// The time at the server, which a manual clock turns.
export const now = () => new Date(Date.now() + (session.settings?.offset ?? 0));

// Reads the settings of the server.
export async function readSettings() {
    const settings = await get("/console/settings");
    const offset = settings.now ? Date.parse(settings.now) - Date.now() : 0;
    session.settings = { ...settings, offset };
}

// Reads the client that the key belongs to.
export async function readClient() {
    session.client = await get("/console/client");
}
