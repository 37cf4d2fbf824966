// What the mock decides: the kind of policy that one writes for a decision point, in a few lines of TypeScript.
import type { MockAuthZenPolicy } from "../../src/policy/testing/mock-authzen.ts";

/** Whose account is whose. */
const owners: Readonly<Record<string, string>> = { "key:people/ann": "ann", "key:people/bob": "bob" };

/** Everybody may look; people move small amounts from their own account; only Ann sees and closes accounts. */
export const policy: MockAuthZenPolicy = ({ subject, action, resource }) => {
  const person = owners[subject.id];
  if (person === undefined) return false;
  if (resource.type === "mcp_server") return true;
  if (resource.type === "tool") return resource.id !== "close_account" || person === "ann";
  if (action.name !== "transfer" || resource.id !== person)
    return { decision: false, context: { reason_user: "This is not your account." } };
  return resource.properties?.["size"] === "small"
    ? true
    : { decision: false, context: { reason_user: "More than 100 is moved at the counter." } };
};
