/** Capabilities as a peer declares them: members of its own, each with an object of details. */
export type Capabilities = Readonly<Record<string, unknown>>;

/**
 * The part of some required client capabilities that was not declared, in the shape that error -32021 reports;
 * undefined when nothing is missing. A bare `elicitation: {}` stands for forms, as it did before there were modes
 * (MCP 2025-11-25, Elicitation).
 */
export function missingCapabilities(
  required: Capabilities,
  declared: Capabilities,
): Capabilities | undefined {
  const missing = Object.entries(required).flatMap(([name, wanted]) => {
    const given = Object.hasOwn(declared, name) ? declared[name] : undefined;
    if (!isObject(given)) return [[name, wanted]];
    const details = isObject(wanted) ? Object.entries(wanted) : [];
    const lacking = details.filter(([detail]) => !hasDetail(name, given, detail));
    return lacking.length === 0 ? [] : [[name, Object.fromEntries(lacking)]];
  });
  return missing.length === 0 ? undefined : (Object.fromEntries(missing) as Capabilities);
}

/** What a client must have declared before it may be asked this (MCP 2026-07-28, Multi Round-Trip Requests). */
export function requiredClientCapabilities(method: string, params: unknown): Capabilities | undefined {
  const has = (name: string): boolean => isObject(params) && Object.hasOwn(params, name);
  if (method === "roots/list") return { roots: {} };
  if (method === "sampling/createMessage") {
    return has("tools") || has("toolChoice") ? { sampling: { tools: {} } } : { sampling: {} };
  }
  if (method !== "elicitation/create") return undefined;
  return isObject(params) && params["mode"] === "url"
    ? { elicitation: { url: {} } }
    : { elicitation: { form: {} } };
}

function hasDetail(name: string, given: Capabilities, detail: string): boolean {
  if (Object.hasOwn(given, detail)) return true;
  return name === "elicitation" && detail === "form" && Object.keys(given).length === 0;
}

function isObject(value: unknown): value is Capabilities {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
