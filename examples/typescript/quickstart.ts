import { Subscriptions } from "./index.ts";
const api = new Subscriptions({ baseUrl: "http://127.0.0.1:8080", clientId: "shop" });
const { auth_id } = await api.auth.signUp({ access_token: "any", email: "grace@example.com" });
const team = { name: "Team", slug: "team", features: "sso", href: "https://shop.example/team" };
const plan = await api.plans.create({ ...team, price: "49.90", currency: "USD", billing_cycle: "monthly" });
await api.subscriptions.create({ user_id: auth_id, subscription_plan_id: plan.id });
console.log("where to pay:", (await api.plans.checkoutLink("team", auth_id)).url);
console.log("may use SSO:", (await api.users.entitlement(auth_id, { feature: "sso" })).has_feature);
