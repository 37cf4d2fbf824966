import { spawn } from "node:child_process";

import { createTicket } from "../../gateway/admin/sign-in/ticket.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import type { CliIo } from "../io.ts";
import { findGateway } from "./admin-client.ts";

/** `headgate console`: opens the console of a running gateway with a link that signs in once. */
export const openConsole = defineCommand("console", async ({ values, positionals }, io: CliIo) => {
  if (positionals.length > 0) throw new UsageError("takes no arguments");
  const gateway = await findGateway("console", values.url, io);
  if (gateway === undefined) return exitCodes.unreachable.code;
  const { place, token } = gateway;
  const link = `${place}/console/#/login/${createTicket(token, Date.now())}`;
  io.out(`${link}\n`);
  if (values["no-open"] !== true) openBrowser(link);
  return exitCodes.ok.code;
});

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
