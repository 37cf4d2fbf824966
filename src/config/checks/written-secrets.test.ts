import { describe, expect, it } from "vitest";

import { loadConfig } from "../load.ts";

const plain = "hunter2-hunter2";

async function load(text: string) {
  const result = await loadConfig({
    text,
    format: "yaml",
    env: { S: plain, K: "k".repeat(43) },
    readFile: async () => `${plain}\n`,
  });
  if (!result.ok) throw new Error(result.problems.map(({ path, message }) => `${path}: ${message}`).join("\n"));
  return result;
}

const demo = "upstream: { demo: true }";
const inHeader = (name: string) => (secret: string) =>
  `upstream: { url: "https://x.example/mcp", headers: { "${name}": "${secret}" } }`;
const inVariable = (name: string) => (secret: string) => `upstream: { command: node, env: { "${name}": "${secret}" } }`;
const places: readonly (readonly [path: string, text: (secret: string) => string])[] = [
  ["upstream.headers.authorization", (secret) => inHeader("authorization")(`Bearer ${secret}`)],
  ...["Authorization", "Cookie", "X-API-Key", "api_key", "x-auth-token", "Private-Token"].map(
    (name) => [`upstream.headers.${name}`, inHeader(name)] as const,
  ),
  ...[
    "TOKEN",
    "GITHUB_TOKEN",
    "OPENAI_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "PGPASSWORD_PASSWORD",
    "DB_PASS",
    "apikey_SECRET",
  ].map((name) => [`upstream.env.${name}`, inVariable(name)] as const),
  [
    "state.redis.url",
    (secret) => `${demo}\nstate: { keys: ["\${env:K}"], redis: { url: "redis://:${secret}@127.0.0.1" } }`,
  ],
  [
    "policy.pingAuthorize.sharedSecret",
    (secret) =>
      `${demo}\npolicy: { pingAuthorize: { serviceUrl: "https://pdp.example", sharedSecret: "${secret}", secretHeaderName: T } }`,
  ],
  [
    "upstream.credentials.clientCredentials.clientSecret",
    (secret) =>
      `upstream: { url: "https://x.example/mcp", credentials: { clientCredentials: { tokenEndpoint: "https://i.example/t", clientId: c, clientSecret: "${secret}" } } }`,
  ],
];

describe("a secret that is written in the configuration", () => {
  it.each(places)("is warned of, and masked like others: %s", async (path, text) => {
    const { warnings, config } = await load(text(plain));
    expect(warnings).toMatchObject([{ path, message: expect.stringContaining("${env:NAME}") }]);
    expect(config.secrets.redact(`it was ${plain}.`)).toBe("it was (secret).");
  });

  it.each(places)("is not one that comes from elsewhere: %s", async (_path, text) => {
    for (const source of ["${env:S}", "${file:secret.txt}"]) expect((await load(text(source))).warnings).toEqual([]);
  });

  it.each([
    inHeader("x-request-id")("abc"),
    inHeader("x-tenant")("acme"),
    inHeader("authorization")(""),
    inVariable("TOKEN_FILE")("/run/secrets/token"),
    inVariable("AWS_ACCESS_KEY_ID")("AKIA"),
    inVariable("PATH")("/bin"),
    'mcpServers: { one: { command: node, env: { GITHUB_TOKEN: "hunter2-hunter2" } } }',
  ])("is nothing else: %s", async (text) => {
    expect((await load(text)).warnings).toEqual([]);
  });
});
