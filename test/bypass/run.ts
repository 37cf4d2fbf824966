// Makes every attempt of the corpus to get around a policy: with every provider, client and server. Exits with 1 if one
// gets through.
//   npm run -s bypass [-- [--provider TEXT] [--client TEXT] [--server TEXT]]
import { parseArgs } from "node:util";

import { httpAttempts } from "./http.ts";
import { corpus, type Lane, lanes, type LaneResult, runUnguarded } from "./lanes.ts";
import { readDocumentedLimits } from "./limits.ts";

const laneLimitMs = 5 * 60 * 1000;
const text = { type: "string", default: "" } as const;
const { values } = parseArgs({ options: { provider: text, client: text, server: text } });
const chosen = lanes.filter(
  ({ provider, client, server }) =>
    provider.includes(values.provider) && client.includes(values.client) && server.includes(values.server),
);

console.log(
  `${corpus.length + 1} attempts by messages, ${httpAttempts.length} by HTTP itself; ${await runUnguarded()} arrive without a policy`,
);
console.log();
console.log(rowOf("provider", "client", "server", "attempts", "through"));
const results: LaneResult[] = [];
for (const lane of chosen) {
  const result = await resultOf(lane);
  results.push(result);
  const { provider, client, server } = lane;
  console.log(rowOf(provider, client, server, String(result.attempts), String(result.through.length)));
  for (const what of result.through) console.log(`  ${what.slice(0, 300)}`);
}
console.log('\nDocumented limits (SECURITY.md, "Not promised"):');
for (const limit of readDocumentedLimits()) console.log(`- ${limit}`);
const attempts = results.reduce((sum, result) => sum + result.attempts, 0);
const through = results.reduce((sum, result) => sum + result.through.length, 0);
console.log(`\n${attempts} attempts on ${results.length} lanes, ${through} through`);
// A run without attempts shows nothing.
process.exit(through === 0 && attempts > 0 ? 0 : 1);

/** A lane that fails or hangs has shown nothing, so it counts as one that let something through. */
async function resultOf(lane: Lane): Promise<LaneResult> {
  const late = Promise.withResolvers<never>();
  // The timer also keeps this process alive while a child ends that nothing else waits for.
  const timer = setTimeout(() => late.reject(new Error("it took too long")), laneLimitMs);
  try {
    return await Promise.race([lane.run(), late.promise]);
  } catch (error) {
    return { attempts: 0, through: [`the lane failed: ${String(error)}`] };
  } finally {
    clearTimeout(timer);
  }
}

function rowOf(...[provider = "", client = "", server = "", count = "", passed = ""]: readonly string[]): string {
  return `${provider.padEnd(22)} ${client.padEnd(24)} ${server.padEnd(18)} ${count.padStart(8)} ${passed.padStart(7)}`;
}
