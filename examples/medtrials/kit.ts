import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";

import {
  createServerKit,
  createTestIssuer,
  detectEnvironment,
  sqliteStore,
  type Authenticator,
  type ServerKit,
  type ServerKitOptions,
  type TestIssuer,
} from "../../src/server-kit/index.ts";
import { AdverseEvent, PublicData, SecureData, TrialSite, Visit } from "./entities.ts";

/** The configurations of the sample: the three of the document that the kit was made after. */
export const configurations = ["development", "production", "hybrid"] as const;

/** One of them. */
export type Configuration = (typeof configurations)[number];

/** The sample: a kit, and the issuer of its test tokens where that may run. */
export interface MedTrials {
  readonly kit: ServerKit;
  /** What a host mounts: the kit, and the issuer's token endpoint. */
  readonly app: Pick<ServerKit, "handle" | "shutdown">;
}

/** What a caller may choose. */
export interface MedTrialsOptions {
  readonly configuration: Configuration;
  /** A SQLite file; records end with the process without one. */
  readonly database?: string | DatabaseSync;
  /** Needed where the sample is deployed: the test issuer refuses to run there. */
  readonly authenticator?: Authenticator;
  readonly log?: ServerKitOptions["log"];
  readonly settings?: ServerKitOptions["settings"];
}

/** Makes the sample, with three sites in an empty database. */
export async function createMedTrials(options: MedTrialsOptions): Promise<MedTrials> {
  const { configuration, authenticator, database, log, settings } = options;
  // The first two say where they run; the third one runs anywhere.
  const isDeployed =
    configuration === "hybrid" ? detectEnvironment(process.env).deployed : configuration === "production";
  const issuer: TestIssuer | undefined =
    authenticator === undefined && !isDeployed ? createTestIssuer({ deployed: false }) : undefined;
  const verifier = authenticator ?? issuer?.authenticator;
  const kit = await createServerKit({
    name: "medtrials",
    version: "1.0.0",
    entities:
      configuration === "hybrid"
        ? [TrialSite, Visit, AdverseEvent, PublicData, SecureData]
        : [TrialSite, Visit, AdverseEvent],
    store: sqliteStore(database),
    settingsFile: join(import.meta.dirname, "config", `${configuration}.json`),
    ...(settings === undefined ? {} : { settings }),
    ...(verifier === undefined ? {} : { auth: { authenticator: verifier } }),
    ...(log === undefined ? {} : { log }),
  });
  await seed(kit);
  return {
    kit,
    app: {
      handle: async (request, peer) => (await issuer?.handle(request)) ?? kit.handle(request, peer),
      shutdown: async () => kit.shutdown(),
    },
  };
}

async function seed(kit: ServerKit): Promise<void> {
  const sites = kit.records(TrialSite);
  if ((await sites.count()) > 0) return;
  for (const [name, location, enrollmentTarget] of [
    ["Fjord Clinic", "Bergen, Norway", 40],
    ["Harbour Hospital", "Aarhus, Denmark", 25],
    ["Lakeside Institute", "Tampere, Finland", 30],
  ] as const) {
    await sites.create({ name, location, enrollmentTarget, regulatoryStatus: "Approved", phase: "II" });
  }
}
