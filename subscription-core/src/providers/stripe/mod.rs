//! Stripe: its webhooks and the mapping of its objects.
