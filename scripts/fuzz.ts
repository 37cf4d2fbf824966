// Throws mutated real messages at every parser of the protocol core for some seconds: npm run fuzz -- --seconds 60.
// It fails when anything throws, when a prototype has changed, or when memory keeps growing. A failure prints the seed.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { fuzzTargets } from "./fuzz/targets.ts";
import { createMutator } from "./fuzz/mutate.ts";

const { values } = parseArgs({
  options: { seconds: { type: "string", default: "30" }, seed: { type: "string" } },
});
const seconds = Number(values.seconds);
const seed = values.seed === undefined ? Date.now() % 2 ** 31 : Number(values.seed);
if (!Number.isFinite(seconds) || seconds <= 0 || !Number.isInteger(seed)) {
  console.error("fuzz: --seconds takes a positive number and --seed a whole one");
  process.exit(2);
}

/** How much more may be held after the run than after the first part of it. */
const growthLimit = 64 * 1024 * 1024;

const corpus = loadCorpus();
const mutate = createMutator(seed, corpus);
const prototypes = prototypeNames();
const end = performance.now() + seconds * 1000;
const settleAt = performance.now() + seconds * 300;
let runs = 0;
let settled: number | undefined;
while (performance.now() < end) {
  const input = mutate();
  for (const [name, target] of fuzzTargets) {
    try {
      target(input);
    } catch (error) {
      console.error(
        `fuzz: ${name} threw with seed ${seed} after ${runs} inputs, on ${JSON.stringify(input.toString("latin1"))}`,
      );
      console.error(error);
      process.exit(1);
    }
  }
  runs++;
  if (settled === undefined && performance.now() > settleAt) settled = process.memoryUsage().heapUsed;
}
if (prototypeNames() !== prototypes) {
  console.error(`fuzz: a prototype has changed, with seed ${seed}`);
  process.exit(1);
}
const grown = process.memoryUsage().heapUsed - (settled ?? 0);
if (settled !== undefined && grown > growthLimit) {
  console.error(`fuzz: the heap grew by ${grown} bytes, with seed ${seed}`);
  process.exit(1);
}
console.log(
  `fuzz: ${runs} inputs through ${fuzzTargets.length} targets in ${seconds} s, seed ${seed}: no throw, no pollution`,
);

function prototypeNames(): string {
  const all = [Object.prototype, Array.prototype, String.prototype, Buffer.prototype, Map.prototype];
  return all.map((prototype) => Object.getOwnPropertyNames(prototype).join()).join(";");
}

/** Every message in the test vectors, and a few nasty pieces to start from. */
function loadCorpus(): readonly Buffer[] {
  const folder = join(import.meta.dirname, "../test/fixtures/vectors");
  const files = readdirSync(folder).filter((file) => file.endsWith(".json") || file.endsWith(".ts"));
  const texts = files.flatMap((file) => readFileSync(join(folder, file), "utf8").match(/\{"jsonrpc".*\}/gu) ?? []);
  const nasty = [
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments":{"a":[1,2,{"b":null}]},"_meta":{"progressToken":"p"}}}',
    '[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"}]',
    'event: message\nid: 1\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n: ping\r\n\r\nretry: 5\rdata\r\r',
    '{"__proto__":{"x":1},"constructor":{"prototype":{"y":2}},"jsonrpc":"2.0"}',
    '"\\ud800\\udc00\\ud800"',
    "=?base64?Z3LDvMOfZQ==?=",
    "s-1-0a1b2c3d-n.7-12",
    "9007199254740993 -0 1e400 1.5E+3",
  ];
  return [...texts, ...nasty].map((text) => Buffer.from(text));
}
