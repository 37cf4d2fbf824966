import { kongPlugin } from "../policy/sideband/engine.ts";
import type { PhaseName } from "./phase.ts";

/** Under which name, version and priority Kong knows the plugin (PA-001, PA-002, PA-003). */
export const pluginIdentity = {
  name: kongPlugin.name,
  version: kongPlugin.version,
  priority: 999,
} as const;

/** What the server offers: without the response phase Kong does not buffer, so that streams flow (PX-08). */
export interface PluginVariant {
  readonly accessOnly: boolean;
}

/** The phases that Kong calls. */
export function phasesOf({ accessOnly }: PluginVariant): readonly PhaseName[] {
  return accessOnly ? ["access"] : ["access", "response"];
}
