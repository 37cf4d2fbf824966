import { spawn } from "node:child_process";

import { createTicket } from "../../gateway/admin/sign-in.ts";
import { parseUrl } from "../../lib/addresses.ts";
import { defaultAdminUrls, exitCodes } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import type { CliIo } from "../io.ts";
import { adminTokenFile, readAdminToken } from "./admin-token.ts";

/** How long a gateway on this machine may take to answer. */
const answerMs = 3000;

/** `headgate console`: opens the console of a running gateway with a link that signs in once. */
export const openConsole = defineCommand("console", async ({ values, positionals, program }, io: CliIo) => {
  if (positionals.length > 0 || program !== undefined) throw new UsageError("takes no arguments");
  if (values.url !== undefined && parseUrl(values.url) === undefined)
    throw new UsageError(`\`${values.url}\` is not a URL`);
  const token = readAdminToken(io.env);
  if (token === undefined) throw new UsageError(`${adminTokenFile(io.env)} cannot be read`);
  const places = values.url === undefined ? defaultAdminUrls : [values.url.replace(/\/+$/u, "")];
  const place = await firstAnswering(places);
  if (place === undefined) {
    io.err(`headgate console: no gateway answers at ${places.join(" or ")}; start one, or name it with --url\n`);
    return exitCodes.unreachable.code;
  }
  const link = `${place}/console/#/login/${createTicket(token, Date.now())}`;
  io.out(`${link}\n`);
  if (values["no-open"] !== true) openBrowser(link);
  return exitCodes.ok.code;
});

async function firstAnswering(places: readonly string[]): Promise<string | undefined> {
  for (const place of places) {
    // The API of a gateway answers 401; anything else is not one.
    const status = await fetch(`${place}/api/v1/about`, { signal: AbortSignal.timeout(answerMs) }).then(
      (response) => response.status,
      () => undefined,
    );
    if (status === 401) return place;
  }
  return undefined;
}

const openers: Readonly<Partial<Record<NodeJS.Platform, readonly [string, ...string[]]>>> = {
  darwin: ["open"],
  win32: ["cmd", "/c", "start", ""],
};

/** Opens a link in the user's browser. Where there is none, the printed link is enough. */
function openBrowser(link: string): void {
  const [command, ...args] = openers[process.platform] ?? ["xdg-open"];
  const child = spawn(command, [...args, link], { stdio: "ignore", detached: true });
  child.on("error", () => {});
  child.unref();
}
