/** A client of the subscription service for Node 22 or later and for browsers. It has no dependencies. */
import type { components, paths } from "./types.d.ts";

export type Schemas = components["schemas"];
export type Tokens = Pick<Schemas["SignedIn"], "access_token" | "refresh_token"> | null;
export interface Settings {
  /** The address of the server, without a slash at its end. */
  baseUrl: string;
  clientId: string;
  /** Where the caller stores the tokens of the person who is signed in, null once the session has ended. The tabs of a browser must share the place. */
  tokens?: { get(): Tokens | Promise<Tokens>; set(tokens: Tokens): void | Promise<void> };
}

type Method = "GET" | "POST" | "PUT" | "DELETE";
type Path<M extends Method> = { [P in keyof paths]: paths[P] extends Record<Lowercase<M>, object> ? P : never }[keyof paths];
type Operation<M extends Method, P extends keyof paths> = paths[P] extends Record<Lowercase<M>, infer O> ? O : never;
type Parameters<O, In extends string> = O extends { parameters: { [K in In]?: infer T } } ? NonNullable<T> : never;
type Body<O> = O extends { requestBody: { content: { "application/json": infer B } } } ? B : never;
type OptionalBody<O> = O extends { requestBody?: infer R } ? (NonNullable<R> extends { content: { "application/json": infer B } } ? B : never) : never;
type Answer<O> = O extends { responses: infer R } ? (R[keyof R] extends { content: { "application/json": infer A } } ? A : undefined) : never;
type Result<M extends Method, P extends keyof paths> = Promise<Answer<Operation<M, P>>>;
type Query<P extends keyof paths> = Parameters<Operation<"GET", P>, "query">;
type Item<P extends keyof paths> = Answer<Operation<"GET", P>> extends { data: (infer T)[] } ? T : never;
type Member<Name extends string, T> = [T] extends [never] ? { [K in Name]?: never } : { [K in Name]: T };
/** `signal` cancels a request; a change with `ifVersion` fails if the record has another version by now. */
export type Extra = { signal?: AbortSignal; ifVersion?: number; idempotencyKey?: string };
export type Options<O> = Member<"path", Parameters<O, "path">> & Member<"body", Body<O>> & { query?: Parameters<O, "query"> } & Extra;
type Optional<T> = {} extends T ? [options?: T] : [options: T];
type Untyped = Extra & { path?: string | Record<string, unknown>; query?: Record<string, unknown>; body?: unknown };

/** A request that failed: refused by the server, or not answered (`connection_lost`), or not by the server (`not_json`). */
export class Problem extends Error {
  readonly status: number;
  readonly code: Schemas["Problem"]["code"] | "connection_lost" | "not_json";
  readonly detail: string;
  readonly errors: Schemas["Fault"][];
  readonly requestId: string | undefined;
  /** The whole problem, with the members that only some codes have. */
  readonly body: Schemas["Problem"] | undefined;

  constructor(status: number, code: Problem["code"], detail: string, body?: Schemas["Problem"], cause?: unknown) {
    super(`${status} ${code}: ${detail}`, { cause });
    [this.status, this.code, this.detail, this.body] = [status, code, detail, body];
    [this.errors, this.requestId] = [body?.errors ?? [], body?.request_id];
  }
}

/** Fields that hold an amount, which is read as text: a number of JavaScript does not keep its digits. */
export const AMOUNTS: ReadonlySet<string> = new Set(["price", "amount", "credit", "amount_due", "next_amount", "credit_before", "credit_after", "mrr", "at_risk", "committed", "trial", "percent"]);
/** The paths that need an access token, and those whose POST accepts an idempotency key. */
export const BEARER = /^\/(me\/|authentication\/(user-logged-in|delete-my-account|tokens))/;
export const CREATES: ReadonlySet<string> = new Set(["/subscription-plans", "/subscriptions", "/subscription-payments",
  "/subscriptions/{id}/cancel", "/subscriptions/{id}/resume", "/subscriptions/{id}/pause", "/subscriptions/{id}/change-plan", "/subscriptions/{id}/discount",
  "/me/subscriptions/{id}/change-plan", "/subscription-payments/{payment_id}/retry", "/webhook-endpoints"]);
const [RETRIES_MAX, WAIT_SECONDS_MAX] = [3, 60];

/** Engines without `source` (Node 20) give the number's own text, which is exact up to 15 significant digits. */
const exactAmounts = (key: string, value: unknown, context?: { source?: string }) =>
  AMOUNTS.has(key) && typeof value === "number" ? (context?.source ?? String(value)) : value;

export class Subscriptions {
  readonly #settings: Settings;
  #refreshing: Promise<void> | undefined;

  constructor(settings: Settings) { this.#settings = settings; }

  /** Any operation of the OpenAPI document. */
  call<M extends Method, P extends Path<M>>(method: M, path: P, ...[options]: Optional<Options<Operation<M, P>>>): Result<M, P> { return this.#call(method, path, options); }

  async #call<T>(method: Method, path: string, options: Untyped = {}): Promise<T> {
    const { path: variables = {}, query = {}, body, ifVersion, idempotencyKey, signal } = options;
    const pairs = Object.entries(query).flatMap(([name, value]) => [value ?? []].flat().map((one) => [name, String(one)]));
    const target = path.replace(/\{(\w+)\}/, (_, name) => encodeURIComponent(String(typeof variables === "string" ? variables : variables[name])));
    const url = `${this.#settings.baseUrl}${target}${pairs.length ? `?${new URLSearchParams(pairs)}` : ""}`;
    const headers: Record<string, string> = { "client-id": this.#settings.clientId };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (ifVersion !== undefined) headers["if-match"] = `"${ifVersion}"`;
    if (method === "POST" && CREATES.has(path)) headers["idempotency-key"] = idempotencyKey ?? crypto.randomUUID();
    const send = async () => {
      const token = BEARER.test(path) ? (await this.#settings.tokens?.get())?.access_token : undefined;
      if (token) headers["authorization"] = `Bearer ${token}`;
      return { token, answer: await this.#send(url, { method, headers, body: JSON.stringify(body), signal, credentials: "omit" }) };
    };
    let { token, answer } = await send();
    if (token && answer instanceof Problem && answer.code === "token_expired") {
      await (this.#refreshing ??= this.#refresh(token).finally(() => (this.#refreshing = undefined)));
      ({ answer } = await send());
    }
    if (answer instanceof Problem) throw answer;
    return answer as T;
  }

  /** The answer to a request, or the problem. It is sent up to three times more if the server is busy or the connection is lost. */
  async #send(url: string, request: RequestInit): Promise<unknown> {
    for (let retry = 0, pause = 0.5; ; retry++, pause *= 2) {
      let problem: Problem, wait: number;
      try {
        const response = await fetch(url, request);
        const text = await response.text();
        const isJson = /^application\/(problem\+)?json/.test(response.headers.get("content-type") ?? "");
        if (response.ok && (isJson || !text)) return text ? JSON.parse(text, exactAmounts) : undefined;
        const body: Schemas["Problem"] | undefined = isJson ? JSON.parse(text, exactAmounts) : undefined;
        problem = new Problem(response.status, body?.code ?? "not_json", body?.detail ?? "the answer is no JSON", body);
        if (![408, 429, 503].includes(problem.status) && problem.code !== "idempotency_in_progress") return problem;
        wait = Number(response.headers.get("retry-after")) || pause;
      } catch (cause) {
        if (!(cause instanceof TypeError)) throw cause;
        [problem, wait] = [new Problem(0, "connection_lost", "the server could not be reached", undefined, cause), pause];
      }
      if (retry === RETRIES_MAX || wait > WAIT_SECONDS_MAX) return problem;
      await new Promise((resolve) => [setTimeout(resolve, wait * 1000), request.signal?.addEventListener("abort", resolve, { once: true })]);
    }
  }

  /** One refresh for all calls that found the same token expired, and for all tabs where the browser has locks. */
  async #refresh(expired: string): Promise<void> {
    const { tokens, clientId } = this.#settings;
    const refresh = async () => {
      const current = await tokens?.get();
      if (!tokens || current?.access_token !== expired) return; // Refreshed meanwhile.
      const body = { refresh_token: current.refresh_token };
      const fresh = await this.call("POST", "/authentication/refresh-token", { body }).catch(async (failure) => {
        if (failure.status === 401) await tokens.set(null);
        throw failure;
      });
      await tokens.set(fresh);
    };
    await (globalThis.navigator?.locks?.request(`refresh ${clientId}`, refresh) ?? refresh());
  }

  /** The records of all pages of a list, from the given page on. */
  async *#all<P extends Path<"GET">>(path: P, options: Untyped, parameter = "cursor"): AsyncGenerator<Item<P>, void> {
    for (let next = options.query?.[parameter]; next !== null; ) {
      const page: { data: Item<P>[]; [next: string]: unknown } = await this.#call("GET", path, { ...options, query: { ...options.query, [parameter]: next } });
      yield* page.data;
      next = page[`next_${parameter}`];
    }
  }

  /** A list: one page of it, or every record. */
  #list<P extends Path<"GET">>(path: P) {
    return {
      list: (query?: Query<P>, extra?: Extra): Result<"GET", P> => this.#call("GET", path, { query, ...extra }),
      all: (query?: Query<P>, extra?: Extra) => this.#all(path, { query, ...extra }),
    };
  }

  #records<P extends Path<"POST">, R extends Path<"GET" | "PUT" | "DELETE">>(path: P, record: R) {
    return {
      get: (id: string, extra?: Extra): Result<"GET", R> => this.#call("GET", record, { path: id, ...extra }),
      create: (body: Body<Operation<"POST", P>>, extra?: Extra): Result<"POST", P> => this.#call("POST", path, { body, ...extra }),
      update: (id: string, body: Body<Operation<"PUT", R>>, extra?: Extra): Result<"PUT", R> => this.#call("PUT", record, { path: id, body, ...extra }),
      delete: (id: string, extra?: Extra): Result<"DELETE", R> => this.#call("DELETE", record, { path: id, ...extra }),
    };
  }

  #verb<P extends Path<"POST">>(path: P) {
    return (id: string, body?: OptionalBody<Operation<"POST", P>>, extra?: Extra): Result<"POST", P> => this.#call("POST", path, { path: id, body, ...extra });
  }

  async #store<T>(tokens: Tokens, answer: T): Promise<T> {
    await this.#settings.tokens?.set(tokens);
    return answer;
  }

  readonly plans = {
    ...this.#list("/subscription-plans"),
    ...this.#records("/subscription-plans", "/subscription-plans/{slug}"),
    checkoutLink: (slug: string, user_id: string) => this.call("GET", "/subscription-plans/{slug}/checkout-link", { path: { slug }, query: { user_id } }),
  };
  readonly subscriptions = {
    ...this.#list("/subscriptions"),
    ...this.#records("/subscriptions", "/subscriptions/{id}"),
    payments: (id: string, query?: Query<"/subscriptions/{id}/payments">, extra?: Extra) => this.#all("/subscriptions/{id}/payments", { path: id, query, ...extra }),
    timeline: (id: string, query?: Query<"/subscriptions/{id}/timeline">) => this.call("GET", "/subscriptions/{id}/timeline", { path: { id }, query }),
    cancel: this.#verb("/subscriptions/{id}/cancel"),
    pause: this.#verb("/subscriptions/{id}/pause"),
    resume: this.#verb("/subscriptions/{id}/resume"),
    previewPlan: (id: string, body: Schemas["PlanChange"], extra?: Extra) => this.call("POST", "/subscriptions/{id}/change-plan/preview", { path: { id }, body, ...extra }),
    changePlan: (id: string, body: Schemas["PlanChange"], extra?: Extra) => this.call("POST", "/subscriptions/{id}/change-plan", { path: { id }, body, ...extra }),
    giveDiscount: (id: string, body: Schemas["NewDiscount"], extra?: Extra) => this.call("POST", "/subscriptions/{id}/discount", { path: { id }, body, ...extra }),
    removeDiscount: (id: string, extra?: Extra) => this.call("DELETE", "/subscriptions/{id}/discount", { path: { id }, ...extra }),
    unschedule: (id: string, extra?: Extra) => this.call("DELETE", "/subscriptions/{id}/scheduled-change", { path: { id }, ...extra }),
  };
  readonly payments = {
    ...this.#records("/subscription-payments", "/subscription-payments/{payment_id}"),
    due: (query?: Query<"/due-payments">, extra?: Extra) => this.#all("/due-payments", { query, ...extra }),
    retry: this.#verb("/subscription-payments/{payment_id}/retry"),
  };
  readonly users = {
    ...this.#list("/users"),
    get: (user_id: string) => this.call("GET", "/users/{user_id}", { path: { user_id } }),
    entitlement: (user_id: string, query?: Query<"/users/{user_id}/entitlement">) => this.call("GET", "/users/{user_id}/entitlement", { path: { user_id }, query }),
    payments: (user_id: string, query?: Query<"/users/{user_id}/payments">, extra?: Extra) => this.#all("/users/{user_id}/payments", { path: { user_id }, query, ...extra }),
    sessions: (user_id: string) => this.call("GET", "/users/{user_id}/sessions", { path: { user_id } }),
    revokeSessions: this.#verb("/users/{user_id}/revoke-sessions"), portalLink: (user_id: string) => this.call("POST", "/users/{user_id}/portal-links", { path: { user_id } }),
  };
  readonly me = {
    entitlement: (query?: Query<"/me/entitlement">) => this.call("GET", "/me/entitlement", { query }),
    subscriptions: (query?: Query<"/me/subscriptions">) => this.#all("/me/subscriptions", { query }),
    payments: (query?: Query<"/me/payments">) => this.#all("/me/payments", { query }),
    checkoutLink: (plan: string) => this.call("GET", "/me/checkout-link", { query: { plan } }),
    cancel: this.#verb("/me/subscriptions/{id}/cancel"), resume: this.#verb("/me/subscriptions/{id}/resume"),
  };
  readonly events = {
    list: (query?: Query<"/events">, extra?: Extra) => this.call("GET", "/events", { query, ...extra }),
    /** Every event, and then those to come, without an end. */
    follow: (query?: Query<"/events">, extra?: Extra) => this.#all("/events", { query: { wait: 25, ...query }, ...extra }, "after"),
  };
  readonly auth = {
    signIn: (body: Schemas["ProofOfIdentity"]) => this.call("POST", "/authentication/sign-in", { body }).then((session) => this.#store(session, session)),
    signUp: (body: Schemas["ProofOfIdentity"]) => this.call("POST", "/authentication/sign-up", { body }).then((session) => this.#store(session, session)),
    loggedIn: () => this.call("POST", "/authentication/user-logged-in"),
    sessions: () => this.call("GET", "/authentication/tokens"),
    logout: () => this.call("POST", "/authentication/tokens/logout").then((answer) => this.#store(null, answer)),
    revokeAll: () => this.call("POST", "/authentication/tokens/revoke-all").then((answer) => this.#store(null, answer)),
    revokeOthers: () => this.call("POST", "/authentication/tokens/revoke-all-except-current"),
    deleteAccount: (auth_id: string) => this.call("DELETE", "/authentication/delete-my-account/{auth_id}", { path: { auth_id } }).then(() => this.#store(null, undefined)),
  };
}
