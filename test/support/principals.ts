import { anonymous, type Principal } from "../../src/core/exchange.ts";

/** A caller with a name, for tests where only who it is matters. */
export function principalNamed(id: string, facts: Partial<Principal> = {}): Principal {
  return { ...anonymous, kind: "token", ...facts, id };
}
