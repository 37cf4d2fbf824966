import type { ConfigInput } from "../../src/config/schema.ts";
import { type MockAuthZenPolicy, startMockAuthZen } from "../../src/policy/testing/mock-authzen.ts";
import { allowRequest, denyRequest, startMockPingAuthorize } from "../../src/policy/testing/mock-ping-authorize.ts";
import { open } from "./vault.ts";

/** A lane makes hundreds of decisions at once, also on a busy machine. */
const patience = "1m";

type Policy = NonNullable<ConfigInput["policy"]>;

/** A policy that is in force, with the decision point that it asks. */
export interface OpenProvider extends AsyncDisposable {
  readonly policy: Policy;
  /** How many questions the decision point got. */
  readonly asked: () => number;
}

const names: ReadonlySet<unknown> = new Set([open.tool, open.prompt, open.resource]);
const bankTools: ReadonlySet<unknown> = new Set([open.tool, "transfer", "search"]);

/** Decision points that permit what is open in the vault, and nothing else. */
export const remoteProviders = {
  AuthZEN: () => authZen(({ resource }) => resource.type === "mcp_server" || names.has(resource.id)),
  PingAuthorize: () =>
    pingAuthorize((method, params) => {
      const named = params["name"] ?? params["uri"];
      return serverMethods.has(method) || (usedMethods.has(method) && names.has(named));
    }),
} satisfies Readonly<Record<string, () => Promise<OpenProvider>>>;

const serverMethods: ReadonlySet<string> = new Set([
  "initialize",
  "ping",
  "server/discover",
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
  "logging/setLevel",
  "notifications/initialized",
  "notifications/cancelled",
]);
const usedMethods: ReadonlySet<string> = new Set(["tools/call", "prompts/get", "resources/read"]);

/** The same policy about arguments in each of the ways that it can be said. `isBlind` ones cannot name what they read. */
export const argumentProviders: Readonly<Record<string, () => Promise<OpenProvider & { readonly isBlind: boolean }>>> =
  {
    "rules that read arguments": async () => ({ policy: argumentRules, isBlind: false, ...nothingToClose }),
    "AuthZEN with mappings": async () => ({
      ...(await authZen(mayUse, { mappings: argumentMappings, sendArguments: false })),
      isBlind: false,
    }),
    "AuthZEN that gets the arguments": async () => ({
      ...(await authZen(mayUse, { sendArguments: true })),
      isBlind: true,
    }),
    PingAuthorize: async () => ({
      ...(await pingAuthorize((method, params) => {
        if (method !== "tools/call") return serverMethods.has(method);
        return isWithin(params["name"], Object(params["arguments"]));
      })),
      isBlind: true,
    }),
  };

const nothingToClose = { asked: () => 0, [Symbol.asyncDispose]: async () => {} };

const tooMuch = (at: string): string => `has(${at}.amount) && ${at}.amount > 100`;

const argumentRules: Policy = {
  rules: [
    { id: "amount", deny: `mcp.tool == "transfer" && ${tooMuch("mcp.arguments")}` },
    { id: "order", deny: `mcp.tool == "transfer" && has(mcp.arguments.order) && ${tooMuch("mcp.arguments.order")}` },
    {
      id: "orders",
      deny: `mcp.tool == "transfer" && has(mcp.arguments.orders) && mcp.arguments.orders.exists(o, ${tooMuch("o")})`,
    },
    { id: "scope", deny: 'mcp.tool == "search" && mcp.arguments.?scope.orValue("own") == "all"' },
    { id: "key", deny: 'mcp.tool == "search" && "key" in mcp.arguments && mcp.arguments["key"] == "all"' },
    {
      id: "own",
      apply: 'mcp.tool == "search"',
      set: { "/filter/owner": '"me"' },
      remove: ["/debug", "/options/trace"],
    },
    { id: "bank", allow: `mcp.method == "tools/call" && mcp.tool in ["${open.tool}", "transfer", "search"]` },
  ],
};

const argumentMappings = {
  transfer: mapping("transfer", {
    amounts: [
      "$params.arguments.?amount",
      "$params.arguments.?order.?amount",
      "$params.arguments.?orders.orValue([]).map(order, order.?amount.orValue(0))",
    ],
  }),
  search: mapping("search", {
    owner: "$params.arguments.?filter.?owner",
    scope: "$params.arguments.?scope",
    key: '$params.arguments[?"key"]',
  }),
};

function mapping(tool: string, properties: Readonly<Record<string, unknown>>) {
  return { evaluation: { action: { name: "tools/call" }, resource: { type: "tool", id: tool, properties } } };
}

const obligations = [
  {
    id: "1",
    type: "custom",
    properties: { vendor: "headgate", action: "remove_arguments", paths: ["/debug", "/options/trace"] },
  },
];

const mayUse: MockAuthZenPolicy = ({ resource, context }) => {
  if (resource.type === "mcp_server") return true;
  if (!bankTools.has(resource.id)) return false;
  const own = Object(resource.properties) as Readonly<Record<string, unknown>>;
  // Only the default mapping says which server it is about.
  const isDefault = own["server"] !== undefined;
  const sent = Object(Object(context)["arguments"]) as Readonly<Record<string, unknown>>;
  return {
    decision: isDefault ? isWithin(resource.id, sent) : isMappedWithin(resource.id, own),
    context: { obligations },
  };
};

function isMappedWithin(tool: unknown, { amounts, owner, scope, key }: Readonly<Record<string, unknown>>): boolean {
  if (tool === "transfer") return [amounts].flat(2).every(isSmall);
  return owner === "me" && scope !== "all" && key !== "all";
}

/** What a policy with rules of its own makes of arguments: it reads the names that it knows. */
function isWithin(tool: unknown, values: Readonly<Record<string, unknown>>): boolean {
  const { amount, order, orders = [], filter, scope, key } = values;
  if (tool === "transfer")
    return isSmall(amount) && [order, orders].flat().every((each) => isSmall(Object(each).amount));
  return tool === open.tool || (Object(filter).owner === "me" && scope !== "all" && key !== "all");
}

function isSmall(amount: unknown): boolean {
  return amount === undefined || (typeof amount === "number" && amount <= 100);
}

async function authZen(
  policy: MockAuthZenPolicy,
  settings: Partial<NonNullable<Policy["authzen"]>> = {},
): Promise<OpenProvider> {
  const mock = await startMockAuthZen({ policy });
  return {
    asked: () => mock.requests.length,
    policy: { authzen: { declaredMappings: "ignore", connectionTimeout: patience, ...settings, url: mock.url } },
    [Symbol.asyncDispose]: () => mock.close(),
  };
}

async function pingAuthorize(
  isAllowed: (method: string, params: Readonly<Record<string, unknown>>) => boolean,
): Promise<OpenProvider> {
  const secret = { header: "CLIENT-TOKEN", value: "s3cret" };
  const mock = await startMockPingAuthorize({
    secret,
    onRequest: (question) => {
      const message = Object(JSON.parse(String(question.payload["body"]))) as Readonly<Record<string, unknown>>;
      const params = Object(message["params"]) as Readonly<Record<string, unknown>>;
      return isAllowed(String(message["method"]), params) ? allowRequest(question) : denyRequest(403)(question);
    },
  });
  return {
    asked: () => mock.requests.length,
    policy: {
      pingAuthorize: {
        serviceUrl: mock.url,
        sharedSecret: secret.value,
        secretHeaderName: secret.header,
        connectionTimeout: patience,
      },
    },
    [Symbol.asyncDispose]: () => mock.close(),
  };
}
