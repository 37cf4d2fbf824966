import { readFile, rename, writeFile } from "node:fs/promises";
import * as z from "zod";

import { GatewayError } from "../../../errors.ts";
import {
  type DefinitionLock,
  emptyLock,
  formatLock,
  parseLock,
  withApproved,
} from "../../../recorder/drift/compare.ts";
import type { AdminDeps } from "../deps.ts";
import { defineEndpoint } from "../endpoint.ts";
import type { DriftedRoute } from "../queries/drifted-routes.ts";
import { nothing } from "../schemas.ts";
import type { Caller } from "../sign-in/sign-in.ts";

const driftedDefinition = z.looseObject({
  type: z.enum(["added", "removed", "changed"]),
  key: z.string().describe("Kind and name."),
  digest: z.string().describe("Digest of what is offered now, needed to approve it."),
  severity: z.enum(["info", "warn", "critical"]),
  fields: z.array(z.string()).describe("The fields that changed."),
  reasons: z.array(z.string()).describe("Why it is critical."),
});

const driftedRoutes = z.array(
  z.strictObject({ route: z.string(), definitions: z.number(), drifts: z.array(driftedDefinition) }),
) as unknown as z.ZodType<readonly DriftedRoute[]>;

/** `GET /drift`: definitions that differ from the approved ones. */
export const listDrift = defineEndpoint({
  method: "GET",
  path: "/drift",
  name: "listDrift",
  summary: "Tools, prompts and resources, as servers offered them, that differ from the lock file.",
  right: "view",
  pathSchema: nothing,
  query: nothing,
  result: z.strictObject({
    configured: z.boolean().describe("Whether the configuration names a lock file."),
    routes: driftedRoutes,
  }),
  handle: async (_request, { config, queries }) => {
    const { drift } = config();
    if (drift === undefined) return { configured: false, routes: [] };
    return { configured: true, routes: await queries.drift(await readLock(drift.lock)) };
  },
});

/** Approvals write the lock file one at a time, so that none undoes another. */
let lastApproval: Promise<unknown> = Promise.resolve();

/** `POST /drift/approve`: approves definitions as they were listed. */
export const approveDrift = defineEndpoint({
  method: "POST",
  path: "/drift/approve",
  name: "approveDrift",
  summary: "Approve listed definitions of a route by writing them to the lock file. Nothing else is written.",
  right: "approve",
  pathSchema: nothing,
  query: nothing,
  body: z.strictObject({
    route: z.string().min(1),
    definitions: z
      .array(z.strictObject({ key: z.string().min(1), digest: z.string().min(1).max(100) }))
      .min(1)
      .max(1000)
      .describe("The digest as listed; a definition that has changed since is refused."),
    reason: z.string().min(1).max(1000).describe("For the log."),
  }),
  result: z.strictObject({ approved: z.number() }),
  handle: ({ body, caller }, deps) => {
    const approval = lastApproval.then(() => approve(body, caller, deps));
    lastApproval = approval.catch(() => {});
    return approval;
  },
});

interface Approval {
  readonly route: string;
  readonly definitions: readonly { readonly key: string; readonly digest: string }[];
  readonly reason: string;
}

async function approve(
  { route, definitions, reason }: Approval,
  caller: Caller,
  { config, queries, clock, note }: AdminDeps,
): Promise<{ readonly approved: number }> {
  const { drift } = config();
  if (drift === undefined) throw new GatewayError("not_found", "no lock file is configured; set `drift.lock`");
  const lock = await readLock(drift.lock);
  const found = (await queries.drift(lock)).find((one) => one.route === route)?.drifts ?? [];
  const chosen = definitions.map(({ key, digest }) => {
    const one = found.find((candidate) => candidate.key === key);
    if (one === undefined) throw new GatewayError("not_found", `${route} has no ${key} that differs`);
    // The server may have changed it since the list was read.
    if (one.digest !== digest)
      throw new GatewayError("invalid_params", `${key} has changed since it was listed: read it again`);
    return one;
  });
  const next = withApproved(lock, route, {
    approved: chosen.flatMap(({ type, offered }) => (type === "removed" || offered === undefined ? [] : [offered])),
    gone: chosen.flatMap(({ type, key }) => (type === "removed" ? [key] : [])),
    at: clock.wall(),
  });
  await replaceFile(drift.lock, formatLock(next));
  for (const { key } of chosen) note(caller, "definition approved", { route, definition: key, reason });
  return { approved: chosen.length };
}

async function readLock(file: string): Promise<DefinitionLock> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && Reflect.get(error, "code") === "ENOENT") return emptyLock;
    throw new GatewayError("store_failed", `${file} cannot be read`, { cause: error });
  }
  return parseLock(text, file);
}

/** A reader finds the old or the new file, never half of one. */
async function replaceFile(file: string, text: string): Promise<void> {
  const unfinished = `${file}.${process.pid}.part`;
  await writeFile(unfinished, text);
  await rename(unfinished, file);
}
