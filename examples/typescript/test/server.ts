// The real server for a test file, and a proxy in front of it that can fail.
import { type ChildProcess, spawn } from "node:child_process";
import { createPrivateKey, sign } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

export const PROGRAM = resolve(process.env.PROGRAM ?? join(import.meta.dirname, "../../../target/debug/subscription-http"));

export interface Server {
  url: string;
  /** An access token of the same session that has expired, signed with the server's own key. */
  expired(token: string): Promise<string>;
  stop(): Promise<void>;
}

export async function start(...options: string[]): Promise<Server> {
  const folder = await mkdtemp(join(tmpdir(), "subscription-"));
  const process = spawn(PROGRAM, ["--listen", "127.0.0.1:0", "--log", "error", "--database", "memory:", "--keys", join(folder, "keys"), ...options], {
    cwd: folder,
    env: {},
    stdio: ["ignore", "pipe", "inherit"],
  });
  const url = await firstLine(process);
  return {
    url: url.replace("listening on ", ""),
    expired: async (token) => sealed(token, await readFile(join(folder, "keys"), "utf8")),
    stop: async () => {
      process.kill();
      await new Promise((done) => process.once("exit", done));
      await rm(folder, { recursive: true });
    },
  };
}

async function firstLine(process: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: process.stdout! })) return line;
  throw new Error("the server did not start");
}

function sealed(token: string, keys: string): string {
  // The first key of the file is the next one, the second is in use.
  const seed = [...keys.matchAll(/ed25519 = "(.*)"/g)][1]![1]!;
  const der = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.from(seed, "base64url")]);
  const [head, payload] = token.split(".") as [string, string];
  const claims = JSON.parse(Buffer.from(payload, "base64url").toString());
  const old = { ...claims, iat: claims.iat - 3600, exp: claims.exp - 3600 };
  const signed = `${head}.${Buffer.from(JSON.stringify(old)).toString("base64url")}`;
  const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  return `${signed}.${sign(null, Buffer.from(signed), key).toString("base64url")}`;
}

/** How a proxy treats a request: with an answer of its own, or by losing the server's. Undefined: it forwards. */
export type Failure = { status: number; headers?: Record<string, string>; body?: string } | "lost before" | "lost after" | undefined;

export interface Proxy {
  url: string;
  requests: { method: string; path: string; headers: IncomingMessage["headers"]; body: string }[];
  /** The failures of the next requests, in order. */
  failures: Failure[];
  stop(): Promise<void>;
}

export async function proxy(target: string): Promise<Proxy> {
  const state: Pick<Proxy, "requests" | "failures"> = { requests: [], failures: [] };
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const body = (await request.setEncoding("utf8").toArray()).join("");
    const { method = "", url: path = "", headers } = request;
    state.requests.push({ method, path, headers, body });
    const failure = state.failures.shift();
    if (failure === "lost before") return request.socket.destroy();
    if (typeof failure === "object") return response.writeHead(failure.status, failure.headers).end(failure.body);
    const { host, connection, ...forwarded } = headers as Record<string, string>;
    const real = await fetch(target + path, { method, headers: forwarded, body: body || undefined });
    const text = await real.text();
    if (failure === "lost after") return request.socket.destroy();
    response.writeHead(real.status, Object.fromEntries(real.headers)).end(text);
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return {
    ...state,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () => new Promise((done) => (server.close(() => done()), server.closeAllConnections())),
  };
}
