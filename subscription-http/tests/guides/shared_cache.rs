//! An nginx that stores whatever it may, before the program in production mode: nobody gets from it what is somebody
//! else's.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use libtest_mimic::Failed;
use serde_json::{Value, json};
use sha2::Sha256;
use subscription_core::auth::Scope;
use subscription_core::{Clock as _, SystemClock};

use crate::script::free_port;
use crate::story::folder;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

const SETTINGS: &str = r#"
mode = "production"
database = "sqlite://records.db"
keys = "server.keys"
identity_issuer = "https://accounts.example.com"
identity_audience = "shop"
identity_secret_file = "provider.secret"
portal_url = "https://shop.example/account"
console = "on"

[[clients]]
id = "web"
scopes = ["auth", "plans:read"]

[providers.stripe]
kind = "stripe"
signing_secrets = ["whsec_0123456789abcdef"]
api_key = "rk_live_0123456789"

[webhooks]

[limits]
address = "off"
client = "off"
failed_clients = "off"
person = "off"
"#;

/// Without `proxy_ignore_headers`, nginx stores what `Cache-Control` and `Vary` allow.
const NGINX: &str = "\
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    proxy_cache_path cache keys_zone=z:1m;
    server {
        listen 127.0.0.1:CACHE;
        location / {
            proxy_pass http://SERVER;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-For 203.0.113.9;
            proxy_cache z;
            proxy_cache_valid any 1m;
            add_header x-cache $upstream_cache_status always;
        }
    }
}
";

/// A process that is killed when this value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The headers of a credential.
type Credential = Vec<(&'static str, String)>;

/// A status, the headers in lower case, and the body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{} {}", self.head, self.body))
    }
}

/// One request on a connection of its own.
fn ask(address: &str, request: &str, headers: &[(&str, String)], body: &str) -> Answer {
    let mut text = format!(
        "{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-request-id: same\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    // The address of the callers is the same with nginx and without it.
    text += "x-forwarded-for: 203.0.113.9\r\n";
    for (name, value) in headers {
        text.extend([*name, ": ", value, "\r\n"]);
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{text}\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.get(9..12).unwrap().parse().unwrap();
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// A token as the identity provider signs it.
fn identity_token(name: &str) -> String {
    let now = SystemClock.now().micros() / 1_000_000;
    let claims = json!({
        "iss": "https://accounts.example.com", "aud": "shop", "sub": name, "iat": now, "exp": now + 600,
        "email": format!("{name}@example.com"), "email_verified": true,
    });
    let parts = [json!({ "alg": "HS256", "typ": "JWT" }), claims];
    let signed = parts.map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    let ours = |name: &str| name.starts_with("SUBSCRIPTION_") || name == "DATABASE_URL";
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs a command of the program until it ends.
fn ended(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = command(env!("CARGO_BIN_EXE_subscription-http"), folder);
    let output = command.args(["--config", "settings.toml"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The records of Ann and Ben, and the credentials that open something.
struct Records {
    credentials: BTreeMap<&'static str, Credential>,
    /// The values of the variables in the patterns of paths.
    ids: Vec<(&'static str, String)>,
}

impl Records {
    fn make(server: &str, ops: &str) -> Self {
        let ops: Credential = vec![("client-id", ops.to_owned())];
        let post = |path: &str, body: &Value| {
            let made = ask(server, &format!("POST {path}"), &ops, &body.to_string());
            assert!(made.status < 300, "{path}: {} {}", made.head, made.body);
            made.json()
        };
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut credentials = BTreeMap::new();
        let mut ids = Vec::new();
        let plan = json!({
            "name": "Pro", "slug": "pro", "price": 19.90, "currency": "USD", "billing_cycle": "monthly"
        });
        let plan = post("/subscription-plans", &plan);
        for (session, link, name) in
            [("session of Ann", "link of Ann", "ann"), ("session of Ben", "link of Ben", "ben")]
        {
            let web: Credential = vec![("client-id", "web".to_owned())];
            let proof = json!({
                "access_token": identity_token(name), "email": format!("{name}@example.com")
            });
            let proof = proof.to_string();
            let person = ask(server, "POST /authentication/sign-up", &web, &proof).json();
            let user = text(&person["auth_id"]);
            let token = format!("Bearer {}", text(&person["access_token"]));
            credentials.insert(session, [web, vec![("authorization", token)]].concat());
            let made = post(&format!("/users/{user}/portal-links"), &json!({}));
            let url = text(&made["url"]);
            let (_, token) = url.split_once("#token=").unwrap();
            credentials.insert(link, vec![("authorization", format!("Bearer {token}"))]);
            let body = json!({ "user_id": user, "subscription_plan_id": plan["id"] });
            let id = text(&post("/subscriptions", &body)["id"]);
            if name == "ann" {
                let path = format!("GET /subscriptions/{id}/payments");
                let payments = ask(server, &path, &ops, "").json();
                ids.push(("{payment_id}", text(&payments["data"][0]["id"])));
                ids.extend([("{id}", id), ("{user_id}", user)]);
            }
        }
        let endpoint = post("/webhook-endpoints", &json!({ "url": "https://hooks.example" }));
        ids.push(("{endpoint_id}", text(&endpoint["id"])));
        ids.extend([("{slug}", "pro".into()), ("{event_id}", "none".into())]);
        credentials.insert("key of the server", ops);
        credentials.insert("unknown key", vec![("client-id", "nobody".into())]);
        credentials.insert("nothing", Vec::new());
        Self { credentials, ids }
    }

    /// A path of a pattern, with the query that it needs.
    fn path(&self, pattern: &str) -> String {
        let path =
            self.ids.iter().fold(pattern.to_owned(), |path, (name, id)| path.replace(name, id));
        match pattern {
            "/me/checkout-link" => path + "?plan=pro",
            "/subscription-plans/{slug}/checkout-link" => {
                let user = self.ids.iter().find(|(name, _)| *name == "{user_id}").unwrap();
                format!("{path}?user_id={}", user.1)
            }
            _ => path,
        }
    }
}

/// What an answer shows, without moments: some pages say when they were computed.
fn shown(answer: &Answer) -> (u16, String) {
    let mut body = String::new();
    let mut rest = answer.body.as_str();
    while let Some(at) = rest.find("20") {
        let (before, moment) = rest.split_at(at);
        body += before;
        let end = moment.find(|c: char| !c.is_ascii_digit() && !"-T:.Z".contains(c));
        rest = moment.get(end.unwrap_or(moment.len())..).unwrap();
        body += "20…";
    }
    (answer.status, body + rest)
}

pub(crate) fn run() -> Result<(), Failed> {
    let folder = folder("shared cache");
    fs::write(folder.join("settings.toml"), SETTINGS)?;
    fs::write(folder.join("provider.secret"), SECRET)?;
    ended(&folder, &["key", "rotate"]);
    let mut add = vec!["client", "add", "--name", "ops"];
    for scope in Scope::ALL {
        add.extend(["--scope", scope.as_str()]);
    }
    let printed = String::from_utf8(ended(&folder, &add).stdout)?;
    let ops = printed.lines().last().ok_or("a key")?;
    let mut server = command(env!("CARGO_BIN_EXE_subscription-http"), &folder);
    server.args(["--config", "settings.toml", "--listen", "127.0.0.1:0"]);
    let server = server.stdout(Stdio::piped()).stderr(fs::File::create(folder.join("log"))?);
    let mut server = Process(server.spawn()?);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().ok_or("its output")?).read_line(&mut line)?;
    let server_address = line.trim().strip_prefix("listening on http://").ok_or("its address")?;
    let records = Records::make(server_address, ops);
    let port = free_port().to_string();
    let config = NGINX.replace("CACHE", &port).replace("SERVER", server_address);
    fs::create_dir(folder.join("nginx"))?;
    fs::write(folder.join("nginx/cache.conf"), config)?;
    let mut nginx = command("nginx", &folder);
    let nginx = nginx.args(["-p", "nginx", "-c", "cache.conf"]);
    let _nginx = Process(nginx.stderr(fs::File::create(folder.join("nginx/log"))?).spawn()?);
    let cache = format!("127.0.0.1:{port}");
    let begun = Instant::now();
    while TcpStream::connect(&cache).is_err() {
        assert!(begun.elapsed() < Duration::from_mins(1), "nginx does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    nobody_gets_what_is_somebody_elses(server_address, &cache, &records);
    Ok(())
}

fn nobody_gets_what_is_somebody_elses(server: &str, cache: &str, records: &Records) {
    let document = ask(server, "GET /openapi.json", &[], "").json();
    let paths = document["paths"].as_object().unwrap().iter();
    let patterns = paths.filter(|(_, methods)| methods.get("get").is_some());
    let mut patterns: Vec<_> = patterns.map(|(pattern, _)| pattern.as_str()).collect();
    patterns.extend(["/console/", "/console/settings", "/console/client", "/console/app.js"]);
    let (mut refused, mut stored) = (0, 0);
    for pattern in patterns {
        let plain = records.path(pattern);
        let (first, rest) = plain.split_at(2);
        let letter = first.chars().last().unwrap();
        let encoded = format!("/%{:02x}{rest}", u32::from(letter));
        let paths = if letter.is_ascii_lowercase() { vec![&plain, &encoded] } else { vec![&plain] };
        for path in paths {
            let request = format!("GET {path}");
            let direct: Vec<_> = records
                .credentials
                .values()
                .map(|credential| shown(&ask(server, &request, credential, "")))
                .collect();
            // What the last one gets may be stored too, so all ask twice.
            let asked = records.credentials.iter().zip(&direct);
            for ((name, credential), expected) in asked.clone().chain(asked) {
                let answer = ask(cache, &request, credential, "");
                assert!(answer.head.contains("\r\nx-cache: "), "nginx stores nothing");
                // The numbers of metrics change with each request.
                if pattern != "/metrics" {
                    assert_eq!(&shown(&answer), expected, "{path} with {name}: {}", answer.head);
                }
                stored += usize::from(answer.head.contains("\r\nx-cache: hit"));
                refused += usize::from(expected.0 == 401);
            }
        }
    }
    assert!(refused > 400, "{refused}");
    assert_eq!(stored, 0, "what must be checked before each use was not");
}
