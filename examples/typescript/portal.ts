import type { Subscriptions } from "./index.ts";

/**
 * The response of a page of yours to a person who is signed in there: a redirect to a fresh link. The cookie binds the link
 * to this browser, and has the name that the page of the portal shows, such as an e-mail address.
 */
export async function toPortal(api: Subscriptions, user: string, person: string): Promise<Response> {
  const { url } = await api.users.portalLink(user);
  const [page, token] = url.split("#token=");
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token)));
  const hash = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const cookie = `portal=${hash}.${encodeURIComponent(person)}; Path=${new URL(page!).pathname}; Max-Age=60; Secure; SameSite=Lax`;
  return new Response(null, { status: 303, headers: { location: url, "cache-control": "no-store", "set-cookie": cookie } });
}
