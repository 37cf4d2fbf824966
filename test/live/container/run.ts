// Builds the gateway's image and runs it:
//   CONTAINER_COMMAND=docker node test/live/container/run.ts
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { packInto } from "../../../scripts/run/package.ts";
import { freePort } from "../../support/free-port.ts";

const { CONTAINER_COMMAND: command, CONTAINER_BUILD_OPTIONS = "", CONTAINER_RUN_OPTIONS = "" } = process.env;
if (command === undefined) {
  console.error("Set CONTAINER_COMMAND to docker or podman; see test/live/container/README.md.");
  process.exit(2);
}

const engine = (args: readonly string[]): string =>
  execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
const options = (text: string): string[] => text.split(" ").filter((option) => option !== "");

const source = resolve(import.meta.dirname, "../../../examples/deploy/gateway");
const place = mkdtempSync(join(tmpdir(), "headgate-container-"));
const [name, image] = [basename(place), `${basename(place)}-image`.toLowerCase()];
const port = await freePort();
const url = `http://127.0.0.1:${port}/mcp`;
/** A secret of the configuration; it must not be printed. */
const secret = "a-secret-of-the-upstream";

const config = join(place, "config");
mkdirSync(config);
writeFileSync(
  join(config, "headgate.yaml"),
  `listen: { host: 0.0.0.0, port: 8484, allowAnonymous: true }
admin: { host: 0.0.0.0, port: 8485, allowAnonymous: true }
record: true
shutdown: { grace: 20s }
upstream: { command: node, args: [/srv/server.mjs], env: { TOKEN: ${secret} } }
`,
);
cpSync(join(import.meta.dirname, "server.mjs"), join(place, "server.mjs"));
for (const path of [place, config, join(config, "headgate.yaml"), join(place, "server.mjs")]) chmodSync(path, 0o755);

try {
  await check("the image builds", async () => {
    const context = join(place, "build");
    cpSync(source, context, { recursive: true });
    const tarball = await packInto(context);
    writeFileSync(join(context, "headgate-keys"), secret);
    const file = ["--file", join(context, "Containerfile"), "--build-arg", `PACKAGE=${basename(tarball)}`];
    engine(["build", ...options(CONTAINER_BUILD_OPTIONS), ...file, "--tag", image, context]);
  });

  let session: Readonly<Record<string, string>> = {};
  await check("a call passes", async () => {
    await start();
    session = await openSession();
    assert.match(await call("leave", session), /left/u);
  });

  await check("it is not root, and nothing of the file system is written", () => {
    assert.equal(inside("id", "-u"), "1000");
    assert.throws(() => inside("touch", "/x"), /Read-only/u);
    assert.match(inside("cat", "/proc/1/status"), /^CapEff:\s+0+$/mu);
    const changed = engine(["diff", name]).split("\n");
    // Where something is mounted, the mount point is new.
    const mounts = /^[AC] \/(?:etc|etc\/headgate|srv|srv\/server\.mjs|tmp|var|var\/lib|var\/lib\/headgate|run\b.*)?$/u;
    assert.deepEqual(
      changed.filter((line) => line !== "" && !mounts.test(line)),
      [],
    );
  });

  await check("it holds no secret and no leftovers of the build", () => {
    const search = ["find", "/", "-xdev", "(", "-name", "headgate-keys", "-o", "-name", "*.tgz", ")"];
    assert.equal(inside("sh", "-c", `${search.map((word) => `'${word}'`).join(" ")} 2>/dev/null; true`), "");
  });

  await check("the health check of the image and the commands inside work", () => {
    const test = JSON.parse(
      engine(["image", "inspect", "--format", "{{json .Config.Healthcheck.Test}}", image]),
    ) as string[];
    assert.equal(test[0], "CMD");
    inside(...test.slice(1));
    assert.match(inside("headgate", "traffic"), /tools\/call leave/u);
  });

  await check("a process that a server leaves behind is collected", async () => {
    const zombies = () => inside("sh", "-c", "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null; true");
    const sleeping = () => inside("sh", "-c", "grep -al '^sleep' /proc/[0-9]*/cmdline 2>/dev/null; true");
    await until(() => sleeping() === "");
    assert.equal(zombies(), "");
  });

  await check("a call that is running finishes after a stop, and the exit is clean", async () => {
    const running = call("slow", session);
    await sleep(1000);
    engine(["stop", "--time", "30", name]);
    assert.match(await running, /done/u);
    assert.equal(engine(["inspect", "--format", "{{.State.ExitCode}}", name]), "0");
  });

  await check("the log is JSON after the first lines, and holds no secret", () => {
    const log = execFileSync("sh", ["-c", `exec "$0" logs "$1" 2>&1`, command, name], { encoding: "utf8" });
    assert.match(log, /^headgate listening on /u);
    const entries = log.split("\n").filter((line) => line.startsWith("{"));
    assert.ok(entries.length > 0);
    for (const entry of entries) JSON.parse(entry);
    assert.doesNotMatch(log, new RegExp(secret, "u"));
  });

  await check("a session goes on in the next container with the same volume", async () => {
    engine(["rm", name]);
    await start();
    assert.match(await call("leave", session), /left/u);
  });

  const size = Number(engine(["image", "inspect", "--format", "{{.Size}}", image]));
  console.log(`the image has ${Math.round(size / 1e6)} MB`);
  console.log(engine(["history", "--format", "{{.Size}}\t{{.CreatedBy}}", image]));
} finally {
  for (const args of [
    ["rm", "--force", name],
    ["volume", "rm", "--force", name],
    ["image", "rm", "--force", image],
  ])
    try {
      engine(args);
    } catch (error) {
      console.error(`cannot clean up: ${String(error)}`);
    }
  rmSync(place, { recursive: true, force: true });
}

async function start(): Promise<void> {
  const published = `127.0.0.1:${port}:8484`;
  const confined = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"];
  const volumes = [
    `${config}:/etc/headgate:ro`,
    `${join(place, "server.mjs")}:/srv/server.mjs:ro`,
    `${name}:/var/lib/headgate`,
  ].flatMap((volume) => ["--volume", volume]);
  const own = [...options(CONTAINER_RUN_OPTIONS), ...confined, ...volumes];
  engine(["run", "--detach", "--name", name, "--publish", published, ...own, image]);
  await until(async () => (await fetch(new URL("/healthz", url))).ok);
}

function inside(...words: readonly string[]): string {
  return engine(["exec", name, ...words]);
}

async function post(body: object, headers: Readonly<Record<string, string>>): Promise<Response> {
  return fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
    body: JSON.stringify({ jsonrpc: "2.0", ...body }),
  });
}

async function openSession(): Promise<Readonly<Record<string, string>>> {
  const revision = "2025-11-25";
  const params = { protocolVersion: revision, capabilities: {}, clientInfo: { name: "live", version: "1.0.0" } };
  const opened = await post({ id: 1, method: "initialize", params }, {});
  await opened.text();
  const headers = {
    "mcp-session-id": opened.headers.get("mcp-session-id") ?? "",
    "mcp-protocol-version": revision,
  };
  await (await post({ method: "notifications/initialized" }, headers)).text();
  return headers;
}

async function call(tool: string, headers: Readonly<Record<string, string>>): Promise<string> {
  const answer = await post({ id: 2, method: "tools/call", params: { name: tool, arguments: {} } }, headers);
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  return text;
}

async function check(title: string, body: () => void | Promise<void>): Promise<void> {
  try {
    await body();
    console.log(`ok   ${title}`);
  } catch (error) {
    process.exitCode = 1;
    const output = error instanceof Error && "stderr" in error ? `\n${String(error.stderr)}` : "";
    console.log(`FAIL ${title}\n${String(error)}${output}`);
  }
}

/** Asks again until the answer is yes; a container takes its time. */
async function until(question: () => boolean | Promise<boolean>): Promise<void> {
  const limitMs = 60_000;
  for (let left = limitMs / 200; left > 0; left--) {
    try {
      if (await question()) return;
    } catch {
      // Not there yet.
    }
    await sleep(200);
  }
  throw new Error(`it did not come about in ${limitMs / 1000} seconds`);
}
