// A link to the portal, made and opened.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { Subscriptions } from "../index.ts";
import { toPortal } from "../portal.ts";
import { start } from "./server.ts";

test("a person is redirected to a link that opens the own subscriptions", async (context) => {
  const server = await start("--portal-url", "https://shop.example/portal");
  context.after(() => server.stop());
  const api = new Subscriptions({ baseUrl: server.url, clientId: "shop" });
  const { auth_id } = await api.auth.signUp({ access_token: "any", email: "ada@example.com" });

  const response = await toPortal(api, auth_id, "ada@example.com");

  assert.equal(response.status, 303);
  const [page, token] = response.headers.get("location")!.split("#token=");
  assert.equal(page, "https://shop.example/portal");
  const hash = createHash("sha256").update(token!).digest("hex");
  const cookie = `portal=${hash}.ada%40example.com; Path=/portal; Max-Age=60; Secure; SameSite=Lax`;
  assert.equal(response.headers.get("set-cookie"), cookie);
  const mine = await fetch(`${server.url}/me/entitlement`, { headers: { authorization: `Bearer ${token}` } });
  assert.equal(((await mine.json()) as { user_id: string }).user_id, auth_id);
});
