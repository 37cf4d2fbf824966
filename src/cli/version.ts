import { readFileSync } from "node:fs";

/** The version in package.json, which stands two folders above this file both in a checkout and when installed. */
export function packageVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  const parsed: unknown = JSON.parse(text);
  const version: unknown =
    typeof parsed === "object" && parsed !== null ? Reflect.get(parsed, "version") : undefined;
  return typeof version === "string" ? version : "unknown";
}
