import type { Subscriptions } from "./index.ts";

/** The response of a page of yours to a person who is signed in there: a redirect to a fresh link. */
export async function toPortal(api: Subscriptions, user: string): Promise<Response> {
  const { url } = await api.users.portalLink(user);
  return new Response(null, { status: 303, headers: { location: url, "cache-control": "no-store" } });
}
