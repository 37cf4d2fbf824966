import { createKeyring, startIssuer } from "../test/support/tokens.ts";
import { createJwtAuthenticator } from "../src/auth/jwt.ts";
import { createKeySet } from "../src/auth/key-set.ts";
import { systemClock } from "../src/core/exchange.ts";
import { startGateway, startUpstream } from "./load/gateway.ts";
import { createRig } from "./load/rig.ts";
import { medianOf, medianOfPairs } from "./load/rounds.ts";
import { type Contender, measureThroughput, shortRounds } from "./load/throughput.ts";
import type { BenchRow } from "./row.ts";

const hourSeconds = 3600;

/** What it costs to know who is calling: tokens that were verified before, against a gateway that asks nobody. */
export async function run(): Promise<BenchRow[]> {
  return [...(await rememberedTokenRows()), ...(await throughputRows())];
}

/** One look at a token that is known, by itself. */
async function rememberedTokenRows(): Promise<BenchRow[]> {
  const issuer = "https://login.example";
  const audience = "https://gate.example/mcp";
  const keyring = await createKeyring(issuer);
  const ask = async () => ({ status: 200, json: keyring.published(), header: () => undefined });
  const keys = createKeySet({ locate: async () => `${issuer}/jwks`, ask, clock: systemClock });
  const authenticator = createJwtAuthenticator({
    issuer,
    keys,
    audience: undefined,
    algorithms: ["ES256"],
    types: ["at+jwt"],
    subjectClaim: "sub",
    allowClients: false,
    scopeClaim: "scope",
    impliedScopes: {},
    clockSkewMs: 0,
    clock: systemClock,
    maxCached: 10_000,
  });
  const authorization = `Bearer ${await keyring.token({ audience, expiresIn: hourSeconds, scope: "a b c" })}`;
  const credentials = { header: () => authorization, audience: [audience] };
  await authenticator.authenticate(credentials);
  const rounds = Array.from({ length: 9 }, () => {
    const start = performance.now();
    for (let turn = 0; turn < 20_000; turn += 1) void authenticator.authenticate(credentials);
    return ((performance.now() - start) * 1000) / 20_000;
  });
  return [
    {
      name: "a token that was verified before",
      value: medianOf(rounds, (micros) => micros),
      unit: "µs",
      threshold: { max: 20 },
      note: `${authorization.length} characters`,
    },
  ];
}

async function throughputRows(): Promise<BenchRow[]> {
  using rig = await createRig();
  await using issuer = await startIssuer();
  await using upstream = await startUpstream(rig);
  await using generator = rig.startGenerator();
  await using open = await startGateway(rig, { url: upstream.url }, "warn");
  await using guarded = await startGateway(rig, { url: upstream.url }, "warn", {
    auth: { authenticators: { staff: { jwt: { issuer: issuer.url } } }, scopes: ["mcp:use"] },
  });
  const token = await issuer.token({ audience: guarded.url, scope: "mcp:use", expiresIn: hourSeconds });
  const contenders: Contender[] = [
    { name: "anonymous", server: open },
    { name: "JWT", server: guarded, authorization: `Bearer ${token}` },
  ];
  const plan = shortRounds;
  for (const { server, authorization } of contenders) {
    const target = { url: server.url, era: "legacy", authorization } as const;
    await generator.run({ kind: "hold", target, sessions: plan.connections, streams: false });
  }
  const figures = await measureThroughput(generator, contenders, { ...plan, era: "legacy" });
  const [anonymous, jwt] = [figures("anonymous"), figures("JWT")];
  return [
    ...[
      { name: "callers without a name", rounds: anonymous },
      { name: "callers with a JWT", rounds: jwt },
    ].map(({ name, rounds }) => ({
      name,
      value: medianOf(rounds, ({ perSecond }) => perSecond),
      unit: "requests/s",
      note: `${medianOf(rounds, ({ cpuMicros }) => cpuMicros).toFixed(1)} µs CPU a request`,
    })),
    {
      // Tells the same on a machine that has other things to do.
      name: "processor time for callers with a JWT",
      value: medianOfPairs(jwt, anonymous, (our, their) => our.cpuMicros / their.cpuMicros),
      unit: "× callers without a name",
    },
    {
      name: "callers with a JWT",
      value: medianOfPairs(jwt, anonymous, (our, their) => our.perSecond / their.perSecond),
      unit: "× callers without a name",
      threshold: { min: 0.9 },
    },
  ];
}
