import type { Environment } from "../config/substitute.ts";
import { isProgram } from "./find-program.ts";

/** The command that starts Headgate for this user, to be shown in messages: as it was started, if that is known. */
export function ownCommand(env: Environment, script: string): string {
  const isOwnPackage = env["npm_package_name"] === "headgate" && env["npm_lifecycle_event"] !== "npx";
  if (isOwnPackage && env["npm_command"] !== "exec" && env["npm_lifecycle_event"] !== undefined)
    return "npm run -s headgate --";
  if (env["npm_command"] === "exec" || /[/\\](?:_npx|node_modules)[/\\]/u.test(script)) return "npx headgate";
  return isProgram("headgate", env) ? "headgate" : `node ${script}`;
}
