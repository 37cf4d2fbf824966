import { openGateway } from "../support/local-gateway.ts";
import { argumentAttempts } from "./arguments.ts";
import { openBank, places } from "./bank.ts";
import { factsOf, sendRaw } from "./http-client.ts";
import { httpAttempts, type HttpFacts } from "./http.ts";
import { type Intruder, intruders } from "./intruders.ts";
import { kindAttempts } from "./kinds.ts";
import { callOf, kindMessage, type MessageAttempt, messageAttempts, searchAttempts } from "./messages.ts";
import { argumentProviders } from "./providers.ts";
import { type Guard, guards } from "./guards.ts";
import { servedBy, type Vault, vaults } from "./upstreams.ts";
import { closed } from "./vault.ts";
import { filterAttempts, listenAttempt, uriAttempts } from "./uris.ts";

/** Every attempt by a message alone, in the order in which they are made. */
export const corpus: readonly MessageAttempt[] = [...messageAttempts, ...filterAttempts, ...uriAttempts];

/** Every attempt at a server. */
export function attemptsAt({ amongOthers }: Vault): readonly MessageAttempt[] {
  return amongOthers === "renamed and searched" ? [...corpus, ...searchAttempts] : corpus;
}

/** One client, one server and one provider between them. */
export interface Lane {
  readonly provider: string;
  readonly client: string;
  readonly server: string;
  /** Makes every attempt of the lane. */
  readonly run: () => Promise<LaneResult>;
}

export interface LaneResult {
  readonly attempts: number;
  /** The attempts that got through, by name, with what reached the server. */
  readonly through: readonly string[];
}

/** Makes every attempt by messages; which of them got through. */
export async function attemptAll(intruder: Intruder, vault: Vault): Promise<readonly string[]> {
  // It opens a stream that stays open, so it is not waited for; everything else comes behind it.
  void intruder.send(listenAttempt.text(intruder.era)).catch(() => {});
  return record(vault, attemptsAt(vault), ({ text }) => intruder.send(text(intruder.era)));
}

async function record<Attempt extends { readonly name: string }>(
  vault: Vault,
  attempts: readonly Attempt[],
  make: (attempt: Attempt) => Promise<unknown>,
): Promise<readonly string[]> {
  const through: string[] = [];
  let before = 0;
  for (const attempt of attempts) {
    await make(attempt);
    // On a channel an attempt may still be on its way; the call at the end comes behind all of them.
    const reached = await vault.reached();
    through.push(...reached.slice(before).map((what) => `${attempt.name}: ${what}`));
    before = reached.length;
  }
  return through;
}

/** What counts: with an allow list everything that arrived, else what was used or is about a closed thing by its name. */
function countedBy({ isAllowList }: Guard, through: readonly string[]): readonly string[] {
  return isAllowList ? through : through.filter((what) => what.includes("used: ") || isAboutClosed(what));
}

const closedNames: ReadonlySet<unknown> = new Set(Object.values(closed));

/** Whether a message that arrived asks for a closed thing, spelled as it is. */
function isAboutClosed(what: string): boolean {
  const start = what.indexOf('{"');
  if (start < 0) return false;
  let message: { readonly method?: unknown; readonly params?: { readonly name?: unknown; readonly uri?: unknown } };
  try {
    // Written by our own client and compared member by member.
    message = JSON.parse(what.slice(start)) as typeof message;
  } catch {
    return false;
  }
  const { method, params } = message;
  const isAsking = typeof method === "string" && /^(?:tools\/call|prompts\/get|resources\/\w+)$/u.test(method);
  return isAsking && (closedNames.has(params?.name) || closedNames.has(params?.uri));
}

const messageLanes: readonly Lane[] = Object.entries(guards).flatMap(([provider, guardBy]) =>
  Object.entries(intruders).flatMap(([client, intrude]) =>
    Object.entries(vaults).map(([server, build]) => ({
      provider,
      client,
      server,
      run: async () => {
        await using vault = await build();
        await using guard = await guardBy();
        await using gateway = await openGateway({ ...servedBy(vault), policy: guard.policy });
        await using intruder = await intrude(gateway);
        const through = await attemptAll(intruder, vault);
        const last = await intruder.callOpen();
        const late = (await vault.reached()).slice(through.length).map((what) => `late: ${what}`);
        const lost = last.includes("shut") ? [] : [`the open call is not answered: ${last}`];
        return {
          attempts: attemptsAt(vault).length + 1,
          through: [...countedBy(guard, [...through, ...late]), ...lost],
        };
      },
    })),
  ),
);

const httpServers = [
  "legacy over HTTP",
  "modern over HTTP",
  "in process",
  "legacy among others",
  "modern, searched",
] as const;
const eras: readonly HttpFacts["era"][] = ["legacy", "modern"];

const httpLanes: readonly Lane[] = Object.entries(guards).flatMap(([provider, guardBy]) =>
  eras.flatMap((era) =>
    httpServers.map((server) => ({
      provider,
      client: `${era}, by HTTP itself`,
      server,
      run: async () => {
        await using vault = await vaults[server]();
        await using guard = await guardBy();
        await using gateway = await openGateway({ ...servedBy(vault), policy: guard.policy });
        const facts = await factsOf(gateway, era);
        const through = await record(vault, httpAttempts, ({ bytes }) => sendRaw(gateway, bytes(facts)));
        return { attempts: httpAttempts.length, through: countedBy(guard, through) };
      },
    })),
  ),
);

/** Arguments and kinds that a lenient server reads otherwise; decision points that are not told what counts get fewer. */
const lenientLanes: readonly Lane[] = Object.entries(argumentProviders).flatMap(([provider, openProvider]) =>
  Object.entries(intruders).flatMap(([client, intrude]) =>
    Object.entries(places).map(([place, offered]) => ({
      provider,
      client,
      server: `lenient, ${place}`,
      run: async () => {
        await using bank = await openBank();
        await using guard = await openProvider();
        await using gateway = await openGateway({ ...servedBy({ ...bank, ...offered }), policy: guard.policy });
        await using intruder = await intrude(gateway);
        const read = argumentAttempts.filter(({ kind }) => !guard.isBlind || kind === "repeated");
        const attempts: readonly MessageAttempt[] = [
          ...read.map(({ name, tool, json }) => ({ name, text: callOf(tool, json) })),
          ...kindAttempts.map((attempt) => ({ name: attempt.name, text: kindMessage(attempt) })),
        ];
        const through = await record(bank, attempts, ({ text }) => intruder.send(text(intruder.era)));
        const last = await intruder.callOpen();
        const late = (await bank.reached()).slice(through.length).map((what) => `late: ${what}`);
        const lost = last.includes("shut") ? [] : [`the open call is not answered: ${last}`];
        return { attempts: attempts.length, through: [...through, ...late, ...lost] };
      },
    })),
  ),
);

/** Every client with every server and every provider. */
export const lanes: readonly Lane[] = [...messageLanes, ...httpLanes, ...lenientLanes];

/** How many attempts of the corpus arrive where no policy is: it is worth nothing if none does. */
export async function runUnguarded(): Promise<number> {
  const [intrude] = Object.values(intruders);
  if (intrude === undefined) return 0;
  await using vault = await vaults["legacy over HTTP"]();
  await using gateway = await openGateway({ upstream: vault.upstream });
  await using intruder = await intrude(gateway);
  const used = (await attemptAll(intruder, vault)).filter((what) => what.includes("used: "));
  return used.length;
}
