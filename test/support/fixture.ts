import { fileURLToPath } from "node:url";

import type { FixtureEra, FixtureHalf } from "../fixtures/everything/server.ts";
import { startProcess, type RunningProcess } from "./process.ts";

/** Which everything server to run. */
export interface FixtureChoice {
  readonly era: FixtureEra;
  /** The newest revision that a legacy session agrees on; the newest there is, if not given. */
  readonly newestLegacy?: string | undefined;
  /** Served by the server kit instead of the SDK alone. */
  readonly by?: "kit";
  /** One of two servers that have everything only together. */
  readonly half?: FixtureHalf;
  /** Where it listens over HTTP; a free one, if not given. */
  readonly port?: number;
}

/** The everything server in a process of its own, over HTTP. */
export interface RunningFixture extends AsyncDisposable {
  /** Streamable HTTP. */
  readonly url: string;
  /** HTTP+SSE; there only where the legacy era is. */
  readonly sseUrl: string | undefined;
  readonly process: RunningProcess;
}

const main = fileURLToPath(import.meta.resolve("../fixtures/everything/main.ts"));
const kitMain = fileURLToPath(import.meta.resolve("../../examples/everything/main.ts"));

/** The command that speaks on its standard streams. */
export function stdioFixture(choice: FixtureChoice): [string, ...string[]] {
  return [process.execPath, main, "--stdio", ...argumentsFor(choice)];
}

/** Starts the fixture on a free port. */
export async function startFixture(choice: FixtureChoice): Promise<RunningFixture> {
  const { newestLegacy, by } = choice;
  const command =
    by === "kit"
      ? [kitMain, "--port", "0", ...(newestLegacy === undefined ? [] : ["--newest-legacy", newestLegacy])]
      : [main, "--http", "--port", String(choice.port ?? 0), ...argumentsFor(choice)];
  const child = await startProcess([process.execPath, ...command]);
  try {
    const [line] = await child.waitForLine(/^\{"url":.*\}$/u);
    const { url, sseUrl } = JSON.parse(line) as { readonly url: string; readonly sseUrl?: string };
    return { url, sseUrl, process: child, [Symbol.asyncDispose]: child[Symbol.asyncDispose] };
  } catch (error) {
    await child.stop();
    throw error;
  }
}

function argumentsFor({ era, newestLegacy, half }: FixtureChoice): string[] {
  return [
    "--era",
    era,
    ...(newestLegacy === undefined ? [] : ["--newest-legacy", newestLegacy]),
    ...(half === undefined ? [] : ["--half", half]),
  ];
}
