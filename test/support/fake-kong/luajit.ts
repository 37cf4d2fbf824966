import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";

const program = "/usr/bin/luajit";

/** Runs a Lua script with LuaJIT, the Lua that Kong runs on, and answers what it printed. */
export function runLua(script: string, input: string): string {
  if (!existsSync(program)) throw new Error(`${program} is missing: node scripts/system-parts.ts installs it`);
  return execFileSync(program, [script], { input, encoding: "utf8" });
}

/** A value as Lua source. */
export function toLua(value: unknown): string {
  if (value === undefined || value === null) return "nil";
  if (typeof value === "string")
    return `"${[...Buffer.from(value)].map((byte) => `\\${String(byte).padStart(3, "0")}`).join("")}"`;
  if (Array.isArray(value)) return `{${value.map(toLua).join(",")}}`;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (typeof value !== "object") throw new TypeError(`Lua has no ${typeof value}`);
  return `{${Object.entries(value)
    .map(([name, member]) => `[${toLua(name)}]=${toLua(member)}`)
    .join(",")}}`;
}
