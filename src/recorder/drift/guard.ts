import { type Action, block, modify, proceed } from "../../core/interceptors/action.ts";
import { defineInterceptor, type MessageInterceptor, type MessageView } from "../../core/interceptors/interceptor.ts";
import { configuredRoute, type Exchange } from "../../core/exchange.ts";
import { memberValue } from "../../protocol/json/read.ts";
import { listShapeOf, type ListShape } from "../../protocol/lists.ts";
import {
  type Definition,
  definingMethods,
  definitionKey,
  type DefinitionLock,
  definitionOf,
  definitionsIn,
  type Drift,
  driftOfDefinition,
  lockedServer,
} from "./compare.ts";

/** What to do with drifted definitions: log them, hide them from lists, or also refuse their calls. */
export type DriftMode = "warn" | "hide" | "block";

/** Options of a drift guard. */
export interface DriftGuardOptions {
  readonly mode: DriftMode;
  /** The current lock; routes that it does not name are not guarded. */
  readonly lock: () => DefinitionLock;
  /** Called once for each drift, and again when it changes. */
  readonly onDrift: (route: string, drift: Drift, exchange: Exchange) => void;
}

/** What a server offers, as it names and describes it: clients may see another name, and what overrides say. */
function offeredBy(
  { tracking, principal, route: name }: Exchange,
  entry: unknown,
  { kind, key }: ListShape,
): { readonly server: string; readonly definition: Definition | undefined; readonly isOverridden: boolean } {
  const route = configuredRoute(name);
  const shown = definitionOf(entry, kind, key);
  const target = shown && tracking.entryTarget?.(principal, kind, shown.name);
  if (shown === undefined || target === undefined) return { server: route, definition: shown, isOverridden: false };
  const server = lockedServer(route, target.member);
  if (target.definition === undefined)
    return { server, definition: { ...shown, name: target.name }, isOverridden: false };
  return { server, definition: definitionOf(JSON.parse(target.definition), kind, key), isOverridden: true };
}

/** An override was written for the definition before: approving the change takes a look at both. */
function aboutOverride(drift: Drift): Drift {
  const reasons = [...drift.reasons, "an override was written for the previous definition"];
  return { ...drift, severity: drift.severity === "info" ? "warn" : drift.severity, reasons };
}

const calls: Readonly<Record<string, "tool" | "prompt">> = { "tools/call": "tool", "prompts/get": "prompt" };

/**
 * Makes the interceptor that compares the lists of servers with the lock. With `block` it also refuses calls of
 * definitions that changed or were never approved.
 */
export function createDriftGuard({ mode, lock, onDrift }: DriftGuardOptions): MessageInterceptor {
  /** By route and definition: the drift that was seen last, as JSON. */
  const drifted = new Map<string, Map<string, string>>();

  function note(exchange: Exchange, route: string, key: string, drift: Drift | undefined): boolean {
    let own = drifted.get(route);
    if (own === undefined) drifted.set(route, (own = new Map()));
    if (drift === undefined) {
      own.delete(key);
      return false;
    }
    const text = JSON.stringify(drift);
    if (own.get(key) !== text) onDrift(route, drift, exchange);
    own.set(key, text);
    return true;
  }

  /** Whether the lock names the route, or a server behind it. */
  function isGuarded({ route: name, tracking }: Exchange): boolean {
    const { routes } = lock();
    const route = configuredRoute(name);
    if (routes[route] !== undefined || tracking.entryTarget === undefined) return routes[route] !== undefined;
    return Object.keys(routes).some((server) => server.startsWith(`${route}/`));
  }

  function answered({ exchange, message, request }: MessageView): Action {
    const { route } = exchange;
    const approved = lock().routes[route];
    const method = request?.method ?? "";
    if (!isGuarded(exchange) || message.kind !== "result") return proceed();
    const result = memberValue(message, "result");
    const form = listShapeOf(method);
    if (form === undefined) {
      if (approved === undefined) return proceed();
      for (const one of definitionsIn(method, result)) {
        note(exchange, route, definitionKey(one), driftOfDefinition(one, approved[definitionKey(one)]));
      }
      return proceed();
    }
    const entries = (result as Readonly<Record<string, unknown>>)[form.member];
    if (!Array.isArray(entries)) return proceed();
    const kept = entries.filter((entry: unknown) => {
      const { server, definition, isOverridden } = offeredBy(exchange, entry, form);
      const own = lock().routes[server];
      if (definition === undefined || own === undefined) return true;
      const key = definitionKey(definition);
      const drift = driftOfDefinition(definition, own[key]);
      return !note(exchange, server, key, isOverridden && drift?.type === "changed" ? aboutOverride(drift) : drift);
    });
    if (mode === "warn" || kept.length === entries.length) return proceed();
    return modify({ set: { [`/result/${form.member}`]: kept } }, "differs from the approved definition");
  }

  function asked({ exchange, message, metadata }: MessageView): Action {
    const kind = calls[message.method ?? ""];
    const { upstream } = exchange.tracking;
    const server = lockedServer(configuredRoute(exchange.route), upstream?.member);
    const approved = lock().routes[server];
    const name = upstream?.name ?? metadata.target?.name;
    if (mode !== "block" || kind === undefined || approved === undefined || name === undefined) return proceed();
    const key = definitionKey({ kind, name });
    // Changes are found in lists; of a server that never lists, only the names are checked.
    const isDrifted = drifted.get(server)?.has(key) === true;
    if (!isDrifted && Object.hasOwn(approved, key)) return proceed();
    return block({
      reason: `The ${kind} ${name} differs from its approved definition. Ask the operator of the gateway to approve it.`,
    });
  }

  return defineInterceptor({
    name: "drift",
    methods: [...definingMethods, ...Object.keys(calls)],
    onMessage: (view) => (view.phase === "request" ? asked(view) : answered(view)),
  });
}
