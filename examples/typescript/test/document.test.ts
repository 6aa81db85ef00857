// The client, its pages and the server's OpenAPI document must agree.
import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { AMOUNTS, BEARER, CREATES } from "../index.ts";
import { PROGRAM, start } from "./server.ts";

const folder = join(import.meta.dirname, "..");
const text = execFileSync(PROGRAM, ["openapi", "--self-service", "cancel,resume,change_plan", "--portal-url", "https://shop.example/"], { encoding: "utf8" });
const document = JSON.parse(text);
const operations = Object.entries<Record<string, any>>(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
);

test("types.d.ts is generated from the document of this server", async () => {
  const temporary = await mkdtemp(join(tmpdir(), "types-"));
  await writeFile(join(temporary, "openapi.json"), text);

  execFileSync(process.execPath, [join(folder, "generate.mjs"), join(temporary, "openapi.json"), join(temporary, "types.d.ts")]);

  const generated = await readFile(join(temporary, "types.d.ts"), "utf8");
  await rm(temporary, { recursive: true });
  assert(generated === (await readFile(join(folder, "types.d.ts"), "utf8")), "types.d.ts is out of date: README.md says how to generate it");
});

test("the fields that are read as text are those with the schema Amount, and no others", () => {
  const fields = new Map<string, Set<string>>();
  const collect = (schema: any) => {
    for (const [name, property] of Object.entries<any>(schema.properties ?? {})) {
      fields.set(name, (fields.get(name) ?? new Set()).add(property.$ref));
      collect(property.items ?? property);
    }
  };
  Object.values(document.components.schemas).forEach(collect);
  const amounts = [...fields].filter(([, schemas]) => [...schemas].some((schema) => /\/(Nullable|Total)?Amount$/.test(schema)));

  assert.deepEqual(amounts.map(([name]) => name).sort(), [...AMOUNTS].sort());
  // An object of the same name stays an object: only numbers are read as text.
  const isObject = (schema: string) => document.components.schemas[schema.split("/").at(-1)!].type === "object";
  for (const [name, schemas] of amounts) {
    assert([...schemas].every((schema) => /Amount(Input)?$/.test(schema) || isObject(schema)), `${name} is another number, too`);
  }
});

test("an access token is sent where the document asks for one", () => {
  const asked = operations.filter(({ operation }) => operation.security[0]?.bearer).map(({ path }) => path);

  assert.deepEqual(operations.map(({ path }) => path).filter((path) => BEARER.test(path)), asked);
});

test("an idempotency key is sent where the document accepts one", () => {
  const accepted = operations.filter(({ operation }) => operation.parameters.some(({ $ref }: any) => $ref.endsWith("/idempotency-key")));

  assert.deepEqual(accepted.map(({ method, path }) => [method, path]).sort(), [...CREATES].map((path) => ["post", path]).sort());
});

test("the quickstart runs, and the pages show it as it is", async () => {
  const server = await start();
  const quickstart = await readFile(join(folder, "quickstart.ts"), "utf8");
  const copy = join(folder, "quickstart-of-a-test.ts");
  await writeFile(copy, quickstart.replace("http://127.0.0.1:8080", server.url));
  const printed = await promisify(execFile)(process.execPath, [copy]).finally(() => Promise.all([rm(copy), server.stop()]));

  assert.match(printed.stdout, /^where to pay: https:\/\/shop.example\/team\?user_id=[0-9a-f-]{36}\nmay use SSO: true\n$/);
  for (const page of [join(folder, "README.md"), join(folder, "../../README.md")]) {
    const blocks = [...(await readFile(page, "utf8")).matchAll(/```ts\n(.*?)```/gs)].map(([, block]) => block);
    for (const block of blocks) assert.equal(block, quickstart, page);
  }
});
