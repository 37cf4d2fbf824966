import { existsSync } from "node:fs";

/** The names under which a configuration is found without being named. */
const configNames = ["headgate.yaml", "headgate.yml", "headgate.json"];

/** The configuration in the current folder, if there is one. */
export function configInFolder(): string | undefined {
  return configNames.find((name) => existsSync(name));
}
