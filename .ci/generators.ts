// Creates, lists, pages and handles a problem with generated types: compiled and run by .ci/generators.
import createClient from "openapi-fetch";
import type { components, paths } from "./types.d.ts";

const client = createClient<paths>({ baseUrl: process.env.API, headers: { "client-id": "generators" } });

async function create(body: components["schemas"]["NewPlan"]): Promise<components["schemas"]["Plan"]> {
  const { data, error } = await client.POST("/subscription-plans", { body });
  if (error) throw new Error(`${error.status} ${error.code}: ${error.detail}`);
  return data;
}

for (const tier of [1, 2, 3]) {
  const plan = await create({ name: "Plan", slug: `plan-${tier}`, price: "19.90", billing_cycle: "monthly", tier });
  if (plan.tier !== tier || plan.is_active !== true || plan.href !== null) throw new Error("not as created");
}

const slugs: string[] = [];
let cursor: string | undefined;
do {
  const { data } = await client.GET("/subscription-plans", { params: { query: { limit: 2, sort: "-tier", cursor } } });
  if (!data) throw new Error("no page");
  slugs.push(...data.data.map((plan) => plan.slug));
  cursor = data.next_cursor ?? undefined;
} while (cursor);
if (slugs.join() !== "plan-3,plan-2,plan-1") throw new Error(slugs.join());

const { error } = await client.GET("/subscription-plans/{slug}", { params: { path: { slug: "none" } } });
const code: components["schemas"]["Problem"]["code"] | undefined = error?.code;
if (code !== "not_found") throw new Error(`not ${code}`);
console.log("created, listed, paged and refused");
