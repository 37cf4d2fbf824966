import type { FixtureChoice } from "../support/fixture.ts";

/** One selection of the official suite's scenarios, with the server that they are for. */
export interface Lane {
  readonly name: string;
  /** The suite's arguments that select the scenarios and the wire they speak. */
  readonly selection: readonly string[];
  /** Whether the suite has a frozen set of requirements here, so that its own verdict counts. */
  readonly scored: boolean;
  readonly fixture: FixtureChoice;
  /** The server behind the gateway where it is of the other era: what the bridge makes of it is compared. */
  readonly behindGateway?: FixtureChoice;
  /** The ways it is run; through one server behind the gateway unless told. */
  readonly ways?: readonly Way[];
  /** The suite is the server instead, and judges what these scenarios bring it: direct, and from the gateway. */
  readonly clientScenarios?: readonly string[];
}

/**
 * How a lane's scenarios reach the server: themselves, through the gateway and one of its transports, as two halves that
 * the gateway joins, or through two gateways in turn.
 */
export type Way = "direct" | "http" | "stdio" | "federation" | "replicas";

/** Every way, the one that the others are compared with first. */
export const ways: readonly Way[] = ["direct", "http", "stdio", "federation", "replicas"];

/** The ways of a lane that does not name any. */
export const usualWays: readonly Way[] = ["direct", "http", "stdio"];

/** Every lane. A set of requirements brings its unscored scenarios along, the two about headers among them. */
export const lanes: readonly Lane[] = [
  {
    // The suite has no set for this revision, so everything that applies is run.
    name: "2025-06-18",
    selection: ["--suite", "all", "--spec-version", "2025-06-18"],
    scored: false,
    fixture: { era: "legacy", newestLegacy: "2025-06-18" },
  },
  { name: "2025-11-25", ...requirements("2025-11-25"), fixture: { era: "dual" } },
  { name: "2025-11-25-legacy-only", ...requirements("2025-11-25"), fixture: { era: "legacy" } },
  { name: "2026-07-28", ...requirements("2026-07-28"), fixture: { era: "dual" } },
  { name: "2026-07-28-modern-only", ...requirements("2026-07-28"), fixture: { era: "modern" } },
  ...kitLanes(),
  {
    name: "2025-11-25-halves",
    ...requirements("2025-11-25"),
    fixture: { era: "dual" },
    ways: ["direct", "federation"],
  },
  {
    name: "2026-07-28-halves",
    ...requirements("2026-07-28"),
    fixture: { era: "dual" },
    ways: ["direct", "federation"],
  },
  // A server with processes of its own, so that requests have to be handed over.
  {
    name: "2025-11-25-replicas",
    ...requirements("2025-11-25"),
    fixture: { era: "legacy" },
    ways: ["direct", "replicas"],
  },
  {
    name: "2026-07-28-replicas",
    ...requirements("2026-07-28"),
    fixture: { era: "dual" },
    ways: ["direct", "replicas"],
  },
  {
    name: "2025-11-25-on-modern",
    ...requirements("2025-11-25"),
    fixture: { era: "dual" },
    behindGateway: { era: "modern" },
    ways: ["direct", "http"],
  },
  {
    name: "2026-07-28-on-legacy",
    ...requirements("2026-07-28"),
    fixture: { era: "dual" },
    behindGateway: { era: "legacy" },
    ways: ["direct", "http"],
  },
  clientLane("2025-11-25", [
    "initialize",
    "tools_call",
    "sse-retry",
    "elicitation-sep1034-client-defaults",
    "json-schema-2020-12-preservation",
  ]),
  clientLane("2026-07-28", [
    "tools_call",
    "request-metadata",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "sep-2322-client-request-state",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
  ]),
];

/** Scenarios for clients, of which all but those about getting tokens say something of a gateway. */
function clientLane(revision: string, clientScenarios: readonly string[]): Lane {
  return {
    name: `client-${revision}`,
    selection: ["--spec-version", revision],
    scored: false,
    fixture: { era: "dual" },
    ways: ["direct", "http"],
    clientScenarios,
  };
}

function requirements(revision: string): Pick<Lane, "selection" | "scored"> {
  return { selection: ["--requirements", revision], scored: true };
}

/** The everything server of the server kit (KO-129); the gateway in front of a server has lanes enough. */
function kitLanes(): readonly Lane[] {
  const direct = { ways: ["direct"] } as const satisfies Partial<Lane>;
  return [
    {
      name: "kit-2025-06-18",
      selection: ["--suite", "all", "--spec-version", "2025-06-18"],
      scored: false,
      fixture: { era: "dual", by: "kit", newestLegacy: "2025-06-18" },
      ...direct,
    },
    { name: "kit-2025-11-25", ...requirements("2025-11-25"), fixture: { era: "dual", by: "kit" }, ...direct },
    { name: "kit-2026-07-28", ...requirements("2026-07-28"), fixture: { era: "dual", by: "kit" }, ...direct },
  ];
}
