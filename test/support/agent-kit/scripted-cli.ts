// A stand-in for the Claude CLI: plays the dialogue in the file that SCRIPTED_DIALOGUE names, see dialogue.ts.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import type { UnknownRecord } from "../../../src/agent-kit/json-rpc.ts";
import type { Step } from "./dialogue.ts";

const patienceMs = 60_000;
const steps = JSON.parse(readFileSync(process.env["SCRIPTED_DIALOGUE"] ?? "", "utf8")) as readonly Step[];
const bound = new Map<string, unknown>();
const unread: unknown[] = [];
const everything: unknown[] = [];
let ended = false;
let wake: () => void = () => {};

const input = createInterface({ input: process.stdin });
input.on("line", (line) => {
  const message: unknown = JSON.parse(line);
  unread.push(message);
  everything.push(message);
  wake();
});
input.on("close", () => {
  ended = true;
  wake();
});

for (const step of steps) await play(step);
await until(() => ended || undefined, "the end of the input");
process.exit(0);

async function play(step: Step): Promise<void> {
  if ("cli" in step) print(`${JSON.stringify(filled(step.cli))}\n`);
  else if ("line" in step) print(`${step.line}\n`);
  else if ("bytes" in step) print("x".repeat(step.bytes));
  else if ("stderr" in step) process.stderr.write(`${step.stderr}\n`);
  else if ("exit" in step) process.exit(step.exit);
  else if ("eof" in step) await until(() => ended || undefined, "the end of the input");
  else if ("hang" in step) await hang();
  else if ("argv" in step) checkArguments(step.argv);
  else if ("never" in step) checkNever(step.never);
  else await until(() => take(step.host), JSON.stringify(step.host));
}

function print(text: string): void {
  process.stdout.write(text);
}

async function hang(): Promise<void> {
  process.on("SIGTERM", () => {});
  print(`${JSON.stringify({ type: "hanging", pid: process.pid })}\n`);
  await new Promise(() => {
    setInterval(() => {}, 1000);
  });
}

function checkArguments(wanted: readonly string[]): void {
  const args = process.argv.slice(2);
  const isThere = args.some((_, at) => wanted.every((word, index) => args[at + index] === word));
  if (!isThere) fail(`${wanted.join(" ")} among the arguments ${args.join(" ")}`);
}

function checkNever(pattern: UnknownRecord): void {
  const found = everything.find((message) => fits(pattern, message, new Map(bound)));
  if (found !== undefined) fail(`no line like ${JSON.stringify(found)}`);
}

/** Takes the first line that fits, in whatever order the host wrote them. */
function take(pattern: UnknownRecord): true | undefined {
  for (const [index, message] of unread.entries()) {
    const trial = new Map(bound);
    if (!fits(pattern, message, trial)) continue;
    for (const [name, value] of trial) bound.set(name, value);
    unread.splice(index, 1);
    return true;
  }
  return undefined;
}

async function until(condition: () => true | undefined, what: string): Promise<void> {
  const timer = setTimeout(() => {
    fail(what);
  }, patienceMs);
  while (condition() === undefined) {
    if (ended) fail(what);
    const { promise, resolve } = Promise.withResolvers<void>();
    wake = resolve;
    await promise;
  }
  clearTimeout(timer);
}

function fail(what: string): never {
  const lines = unread.map((message) => JSON.stringify(message)).join("\n");
  process.stderr.write(`the dialogue expected ${what}\nwhat the host wrote and nobody took:\n${lines}\n`);
  process.exit(9);
}

function fits(pattern: unknown, value: unknown, names: Map<string, unknown>): boolean {
  if (pattern === "*") return value !== undefined;
  if (typeof pattern === "string" && pattern.startsWith("$")) {
    if (names.has(pattern)) return names.get(pattern) === value;
    names.set(pattern, value);
    return value !== undefined;
  }
  if (typeof pattern !== "object" || pattern === null) return pattern === value;
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(pattern) && (!Array.isArray(value) || value.length !== pattern.length)) return false;
  return Object.entries(pattern).every(([key, member]) => fits(member, Reflect.get(value, key), names));
}

function filled(value: unknown): unknown {
  if (typeof value === "string") return bound.has(value) ? bound.get(value) : value;
  if (Array.isArray(value)) return value.map(filled);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, filled(member)]));
}
