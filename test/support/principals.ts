import { anonymous } from "../../src/exchange.ts";
import type { Principal } from "../../src/exchange.ts";

/** A caller with a name, for tests where only who it is matters. */
export function principalNamed(id: string, facts: Partial<Principal> = {}): Principal {
  return { ...anonymous, kind: "token", ...facts, id };
}
