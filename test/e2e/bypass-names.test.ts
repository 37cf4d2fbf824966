import { describe, expect, it } from "vitest";

import { argumentAttempts } from "../bypass/arguments.ts";
import { openBank, places, wrongIn } from "../bypass/bank.ts";
import { type Intruder, intruders } from "../bypass/intruders.ts";
import { kindAttempts } from "../bypass/kinds.ts";
import { callOf, kindMessage } from "../bypass/messages.ts";
import { allowing, denying } from "../bypass/policies.ts";
import { argumentProviders, type OpenProvider, remoteProviders } from "../bypass/providers.ts";
import { servedBy, type Vault } from "../bypass/upstreams.ts";
import { openGateway } from "../support/local-gateway.ts";

/** Makes every attempt; which of them got through, by name. */
async function attemptAll(
  intruder: Intruder,
  vault: Vault,
  attempts: readonly { readonly name: string; readonly text: string }[],
): Promise<readonly string[]> {
  const through: string[] = [];
  let before = 0;
  for (const { name, text } of attempts) {
    await intruder.send(text);
    const reached = await vault.reached();
    if (reached.length > before) through.push(`${name}: ${reached.slice(before).join(" ")}`);
    before = reached.length;
  }
  // On a channel an attempt may still be on its way; this call comes behind all of them.
  expect(await intruder.callOpen()).toContain("shut");
  return (await vault.reached()).length > before ? [...through, "later ones"] : through;
}

const clients = Object.entries(intruders).map(([client, intrude]) => ({ client, intrude }));
const ways = Object.entries(places);

/** Each pair with a bank of its own, and in turn with one of those that have another server beside them. */
function inPlaces<Pair>(pairs: readonly Pair[]) {
  const [alone, ...others] = ways;
  return pairs.flatMap((pair, index) =>
    [alone, others[index % others.length]].flatMap((way) =>
      way === undefined ? [] : [{ ...pair, place: way[0], offered: way[1] }],
    ),
  );
}
const asText = (text: string | Uint8Array): string => Buffer.from(text).toString();

describe("arguments that a lenient server reads otherwise", () => {
  const pairs = Object.entries(argumentProviders).flatMap(([how, openProvider]) =>
    clients.map((client) => ({ how, openProvider, ...client })),
  );
  const messagesFor = (era: Intruder["era"]) =>
    argumentAttempts.map((attempt) => ({ ...attempt, text: asText(callOf(attempt.tool, attempt.json)(era)) }));

  it("are real: without a policy each of them makes the server do what it must not", async () => {
    expect(argumentAttempts.length).toBeGreaterThan(100);
    const harmless = messagesFor("legacy").filter(({ text }) => wrongIn(JSON.parse(text)) === undefined);
    expect(harmless).toEqual([]);
  });

  it.each(inPlaces(pairs))("reach nothing ($how, $client, $place)", async ({ openProvider, intrude, offered }) => {
    await using provider = await openProvider();
    await using bank = await openBank();
    await using gateway = await openGateway({ ...servedBy({ ...bank, ...offered }), policy: provider.policy });
    await using intruder = await intrude(gateway);
    // A decision point that is not told which names count has to insist on those that it reads.
    const attempts = messagesFor(intruder.era).filter(({ kind }) => !provider.isBlind || kind === "repeated");
    expect(await attemptAll(intruder, bank, attempts)).toEqual([]);
  });

  const proper = [
    ["transfer", '{"amount":5}'],
    ["transfer", '{"amount":5,"order":{"amount":5},"orders":[{"amount":1},{}],"note":{"AMOUNT":1}}'],
    ["search", '{"filter":{"owner":"me"},"scope":"own","fields":["Amount","amount"]}'],
    ["search", '{"filter":{"owner":"me"},"options":{"depth":1},"rows":[{"Owner":1},{"owner":2}]}'],
  ] as const;

  it.each(inPlaces(Object.entries(argumentProviders).map(([how, openProvider]) => ({ how, openProvider }))))(
    "do not keep proper ones from passing ($how, $place)",
    async ({ openProvider, offered }) => {
      await using provider = await openProvider();
      await using bank = await openBank();
      await using gateway = await openGateway({ ...servedBy({ ...bank, ...offered }), policy: provider.policy });
      await using intruder = await intruders["2025-11-25 over HTTP"]?.(gateway);
      for (const [tool, json] of proper) await intruder?.send(asText(callOf(tool, json)("legacy")));
      expect(bank.served().filter((text) => text.includes("tools/call"))).toHaveLength(proper.length);
      expect(await bank.reached()).toEqual([]);
    },
  );
});

describe("messages whose id says another kind than their method", () => {
  const local = Object.entries({ ...allowing, ...denying }).map(
    ([how, policy]) => [how, async (): Promise<Partial<OpenProvider>> => ({ policy })] as const,
  );
  const policies: readonly (readonly [string, () => Promise<Partial<OpenProvider>>])[] = [
    ["no policy", async () => ({})],
    ...local,
    ...Object.entries(remoteProviders),
  ];
  const pairs = policies.flatMap(([how, openProvider], row) =>
    // Every way with some of the clients, and every client with some of the ways.
    clients.filter((_, column) => (row + column) % 2 === 0).map((client) => ({ how, openProvider, ...client })),
  );

  it("are real: each of them is carried out by a server that goes by the name", () => {
    expect(kindAttempts.length).toBeGreaterThan(100);
    const harmless = kindAttempts.filter(
      (attempt) => wrongIn(JSON.parse(asText(kindMessage(attempt)("legacy")))) === undefined,
    );
    expect(harmless.map(({ name }) => name)).toEqual([]);
  });

  it.each(inPlaces(pairs))("reach nothing ($how, $client, $place)", async ({ openProvider, intrude, offered }) => {
    const { policy, [Symbol.asyncDispose]: close } = await openProvider();
    await using _provider = { [Symbol.asyncDispose]: async () => close?.() };
    await using bank = await openBank();
    await using gateway = await openGateway({ ...servedBy({ ...bank, ...offered }), ...(policy && { policy }) });
    await using intruder = await intrude(gateway);
    const attempts = kindAttempts.map((attempt) => ({
      name: attempt.name,
      text: asText(kindMessage(attempt)(intruder.era)),
    }));
    expect(await attemptAll(intruder, bank, attempts)).toEqual([]);
  });
});
