import { Problem, Subscriptions } from "./index.ts";

const api = new Subscriptions({ baseUrl: "http://127.0.0.1:8080", clientId: "shop" });
const ada = await api.auth.signUp({ access_token: "any", email: "ada.l@example.com" });
const plan = await api.plans.create({ name: "Team", slug: "team", price: "49.90", billing_cycle: "monthly" });
await api.subscriptions.create({ user_id: ada.auth_id, subscription_plan_id: plan.id });
for await (const { status, renews_at } of api.subscriptions.all({ user_id: ada.auth_id })) console.log(status, renews_at);
await api.plans.get("gold").catch((failure: Problem) => console.log(failure.code));
