//! Descriptions of `/authentication`.

use super::operations::{Answer, Area, Operation, done, ok};

const LOGGED: &[&str] = &["x-forwarded-for", "user-agent"];

pub(super) static AREA: Area = Area {
    name: "Authentication",
    description: "Accounts, sessions and their tokens. A person proves who they are with the token of an \
        identity provider; from then on the session's own tokens count.",
    operations: &[
        Operation {
            route: "POST /authentication/sign-in",
            id: "signIn",
            summary: "Sign in",
            description: "Opens a session for an identity that has an account. A user has at most 20 live \
                sessions per client; the oldest goes. Where the identity provider has verified another address \
                than the account has, the account follows.",
            parameters: LOGGED,
            body: Some("ProofOfIdentity"),
            answers: &[ok("A session and its tokens.", "SignedIn")],
            codes: &[
                "identity_rejected",
                "email_mismatch",
                "email_not_verified",
                "account_not_found",
                "email_in_use",
                "account_closing",
                "identity_provider_unavailable",
            ],
        },
        Operation {
            route: "POST /authentication/sign-up",
            id: "signUp",
            summary: "Sign up",
            description: "Makes an account for an identity, and opens its first session.",
            parameters: LOGGED,
            body: Some("ProofOfIdentity"),
            answers: &[Answer {
                status: 201,
                ..ok("The account was made; a session and its tokens.", "SignedIn")
            }],
            codes: &[
                "identity_rejected",
                "email_mismatch",
                "email_not_verified",
                "account_exists",
                "email_in_use",
                "account_closing",
                "identity_provider_unavailable",
            ],
        },
        Operation {
            route: "POST /authentication/user-logged-in",
            id: "userLoggedIn",
            summary: "Tell who is logged in",
            description: "Tells the user and the session of an access token. It takes no body.",
            parameters: &[],
            body: None,
            answers: &[ok("The user and the session.", "LoggedIn")],
            codes: &["account_closing"],
        },
        Operation {
            route: "POST /authentication/refresh-token",
            id: "refreshToken",
            summary: "Refresh a session",
            description: "Replaces the refresh token and gives a fresh access token; the access token before \
                stays good. The token before the latest is taken for 30 seconds after its replacement, and \
                for 10 minutes if its successor was never used: the same latest token comes back, so that two \
                tabs converge. Anything older is theft and ends the session.",
            parameters: &[],
            body: Some("RefreshRequest"),
            answers: &[ok("The session and its tokens.", "SignedIn")],
            codes: &[
                "refresh_token_invalid",
                "refresh_token_reused",
                "session_revoked",
                "session_expired",
                "account_closing",
            ],
        },
        Operation {
            route: "DELETE /authentication/delete-my-account/{auth_id}",
            id: "deleteMyAccount",
            summary: "Delete the caller's account",
            description: "Ends all sessions, erases address and identity, and expires live subscriptions; payments \
                stay, under an id that leads to no person. An account of up to 1,000 records is deleted at once; a \
                larger one is deleted step by step, also if the caller leaves, and its other calls are answered \
                409 meanwhile. Any id but the caller's own is refused alike.",
            parameters: &["auth_id"],
            body: None,
            answers: &[done("The account is gone.")],
            codes: &["auth_id_mismatch"],
        },
        Operation {
            route: "GET /authentication/tokens",
            id: "listSessions",
            summary: "List the caller's sessions",
            description: "The live sessions of the user, newest first; never any token.",
            parameters: &[],
            body: None,
            answers: &[ok("The live sessions.", "Sessions")],
            codes: &["account_closing"],
        },
        Operation {
            route: "POST /authentication/tokens/logout",
            id: "logout",
            summary: "Log out",
            description: "Ends the session of the access token. Again, or with an expired but genuine token, it \
                is still 200. It takes no body.",
            parameters: &[],
            body: None,
            answers: &[ok("How many sessions were ended: 1, or 0 if it had ended.", "Revoked")],
            codes: &["account_closing"],
        },
        Operation {
            route: "POST /authentication/tokens/revoke-all",
            id: "revokeAll",
            summary: "End every session of the caller",
            description: "This one too. It counts on every instance as soon as the answer is out. It takes no \
                body.",
            parameters: &[],
            body: None,
            answers: &[ok("How many sessions were ended.", "Revoked")],
            codes: &["account_closing"],
        },
        Operation {
            route: "POST /authentication/tokens/revoke-all-except-current",
            id: "revokeAllExceptCurrent",
            summary: "End every other session of the caller",
            description: "All but the one of the access token. It takes no body.",
            parameters: &[],
            body: None,
            answers: &[ok("How many sessions were ended.", "Revoked")],
            codes: &["account_closing"],
        },
    ],
};
