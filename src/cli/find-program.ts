import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join, resolve } from "node:path";

import type { Environment } from "../config/substitute.ts";
import { findWindowsProgram } from "../transports/stdio/launcher.ts";

/** Whether a program can be started: a path to an executable file, or a name found in PATH. */
export function isProgram(program: string, env: Environment, folder = "."): boolean {
  if (process.platform === "win32") return findWindowsProgram(program, resolve(folder), env) !== undefined;
  const isPath = isAbsolute(program) || program.includes("/");
  const places = isPath
    ? [resolve(folder, program)]
    : (env["PATH"] ?? "").split(delimiter).map((entry) => join(entry, program));
  return places.some(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/** The command that starts Headgate for this user, for messages: the one that it was started with, if known. */
export function ownCommand(env: Environment, script: string): string {
  const isOwnPackage = env["npm_package_name"] === "headgate" && env["npm_lifecycle_event"] !== "npx";
  if (isOwnPackage && env["npm_command"] !== "exec" && env["npm_lifecycle_event"] !== undefined)
    return "npm run -s headgate --";
  if (env["npm_command"] === "exec" || /[/\\](?:_npx|node_modules)[/\\]/u.test(script)) return "npx headgate";
  return isProgram("headgate", env) ? "headgate" : `node ${script}`;
}
