import { createHash } from "node:crypto";

import { configuredRoute } from "../../core/exchange.ts";
import type { FederationConfig, MemberConfig, RouteConfig, ViewConfig } from "../../config/config.ts";
import { Federation, type FederationDeps } from "../../federation/federation.ts";
import type { FederationOptions, MemberOptions } from "../../federation/names/member-options.ts";
import { FederatedRequestLink } from "../../federation/request-link.ts";
import { FederatedSessionLink } from "../../federation/session-link.ts";
import type { ArgumentOverride, ToolOverride } from "../../federation/names/tool-overrides.ts";
import type { ViewOptions } from "../../federation/names/view.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { GatewayError } from "../../errors.ts";
import { compileCondition, compileExpression } from "../../policy/cel/expression.ts";
import { Bindings, type NeededMembers } from "../../policy/cel/facts.ts";
import { toJson } from "../../policy/cel/json-value.ts";
import { isUriTemplate } from "../../policy/enforcement/mentioned-names.ts";
import { isCanonicalTemplate, isCanonicalUri } from "../../policy/provider/canonical-uri.ts";
import { type LinkEvents, relayFindings, type UpstreamLink } from "../../transports/transport.ts";
import type { Era } from "../../protocol/revisions.ts";
import { eraDetections } from "./era-detection.ts";
import { createLinks, type LinkLimits, type Links, type LinkScope, type ModernSharing } from "./links.ts";
import type { OpenUpstream, UpstreamDeps } from "./open-upstream.ts";

/** How many clashing names are in a log line. */
const maxLogged = 20;

/** Opens several servers as one. Each member is an upstream of its own, with its own eras, credentials and processes. */
export function openFederation(
  { name: route, timeouts }: Pick<RouteConfig, "name" | "timeouts">,
  config: FederationConfig,
  deps: UpstreamDeps,
  openMember: (member: MemberConfig) => OpenUpstream,
): OpenUpstream {
  const { clock, setTimer, seals } = deps;
  let members: ReadonlyMap<string, OpenUpstream> = new Map(
    config.members.map((member) => [member.name, openMember(member)]),
  );
  let configured = byName(config);
  // Iterated with every request; an array takes a fraction of the time of a map.
  let all: readonly OpenUpstream[] = [...members.values()];
  const federation = new Federation({
    options: optionsOf(route, config),
    clock,
    setTimer,
    quickMs: timeouts.quick,
    seals,
    observer: deps.ownRequests,
    factsStore: deps.serverFacts,
    serverOf: (name) => serverOf(route, name, memberOf({ name }).address, configured.get(name)),
    ...listReports(route, deps),
  });

  function memberOf({ name }: Pick<MemberOptions, "name">): OpenUpstream {
    const member = members.get(name);
    if (member === undefined) throw new TypeError(`no member ${name}`);
    return member;
  }

  function openSession(scope: LinkScope, events: LinkEvents): UpstreamLink {
    const link = new FederatedSessionLink({
      federation,
      events,
      open: (member, own) => memberOf(member).open(scope, own),
      addressOf: (name) => memberOf({ name }).address,
    });
    if (scope.session !== undefined) federation.sessionSources.set(scope.session, link.lists);
    return link;
  }

  function openRequests(events: LinkEvents): UpstreamLink {
    const openLinks = (options: MemberOptions): Links => {
      const { open, modernSharing, linkLimits: limits } = memberOf(options);
      // A reload may change its title.
      const current = (): MemberOptions => federation.member(options.name) ?? options;
      const eventsFor = ({ forget }: { readonly forget: () => void }): LinkEvents => ({
        message: (message, related, context) => link.received(current(), message, related, context),
        ...relayFindings(events),
        closed: (error) => {
          forget();
          link.memberGone(current(), error);
        },
      });
      // Requests have no sessions that could be restored.
      const restoring = { clock, setTimer, newId: deps.newId, address: options.name, onBegunAnew: () => {} };
      return createLinks(open, modernSharing, eventsFor, { limits, ...restoring });
    };
    const links = new Map(federation.options.members.map((member) => [member.name, openLinks(member)]));
    const link = new FederatedRequestLink({
      federation,
      events,
      linkOf: (member, exchange) => {
        const opened = links.get(member.name)?.for(exchange, undefined);
        if (opened === undefined) throw new TypeError(`no member ${member.name}`);
        return opened.resolvedLink ?? opened;
      },
      replace: (changed) => {
        const old = [...changed].flatMap((name) => links.get(name) ?? []);
        for (const name of changed) {
          const member = federation.member(name);
          if (member === undefined) links.delete(name);
          else links.set(name, openLinks(member));
        }
        return closing(() => old);
      },
      close: closing(() => [...links.values()]),
    });
    federation.modernSource = link.lists;
    return link;
  }

  return {
    open: (scope, events) => (scope.era === "modern" ? openRequests(events) : openSession(scope, events)),
    // One link for all, which keeps callers apart at the members.
    modernSharing: "everybody",
    linkLimits: narrowestOf(() => all.map(({ linkLimits }) => linkLimits)),
    // If all members compare headers themselves, nothing is left to compare.
    seesHeaders: allSeeHeaders(() => all),
    sendsHeaders: () => all.some(seesHeaders),
    holdsSessions: () => all.some((member) => member.holdsSessions()),
    sharedServer: (era) => widestSharing(all, era),
    address: "federation",
    destination: { transport: "in-process" },
    memberDestination: (member) => members.get(member)?.destination,
    federation,
    prepareMembers: (next, isSame, openNext) => {
      const taken = new Map(
        next.members.map((member) => [member.name, isSame(member.name) ? members.get(member.name) : undefined]),
      );
      const options = optionsOf(route, next);
      const opened = next.members.map((member) => [member.name, taken.get(member.name) ?? openNext(member)] as const);
      return {
        opened: opened.flatMap(([name, member]) => (taken.get(name) === undefined ? [member] : [])),
        commit: async (graceMs) => {
          const before = members;
          members = new Map(opened);
          configured = byName(next);
          all = [...members.values()];
          const changed = [...before.keys(), ...members.keys()].filter(
            (name) => before.get(name) !== members.get(name),
          );
          await federation.reconfigure(options, new Set(changed), graceMs);
          const old = new Set(changed.flatMap((name) => before.get(name) ?? []));
          await closeAll([...old], "the server has been replaced");
        },
      };
    },
    close: (reason) => closeAll(all, reason),
  };
}

function byName({ members }: FederationConfig): ReadonlyMap<string, MemberConfig> {
  return new Map(members.map((member) => [member.name, member]));
}

/** Identifies the server of a member of a route, the same in all views: what one said must not be taken for another's. */
function serverOf(route: string, name: string, address: string, member: MemberConfig | undefined): string {
  const program = member?.upstream.type === "stdio" ? [member.upstream.command, ...member.upstream.args] : [];
  const parts = [configuredRoute(route), name, address, ...program];
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url");
}

/** Tells operators about lists that lack a server, and names that no server offers. */
function listReports(
  route: string,
  { log, metrics }: Pick<UpstreamDeps, "log" | "metrics">,
): Pick<FederationDeps, "onDegraded" | "onClashes"> {
  return {
    onDegraded: (method, { upstream, reason, stale }, { id }) => {
      metrics.metrics.degradedLists.labels({ route, member: upstream }).inc();
      log.warn({ exchange: id, route, member: upstream, method, reason, stale }, "list without a server");
    },
    onClashes: (method, names, { id }) => {
      const shown = names.slice(0, maxLogged).join(", ");
      log.warn({ exchange: id, route, method, names: shown, count: names.length }, "names of several servers clash");
    },
  };
}

function widestSharing(members: readonly OpenUpstream[], era: Era): ModernSharing | undefined {
  if (members.some((member) => member.sharedServer(era) === "everybody")) return "everybody";
  return members.some((member) => member.sharedServer(era) !== undefined) ? "principal" : undefined;
}

/** Whether all members compare headers. Needed by bench federation: "call of a". */
function allSeeHeaders(members: () => readonly OpenUpstream[]): () => boolean {
  let known: readonly OpenUpstream[] | undefined;
  let knownAt = 0;
  return () => {
    const all = members();
    // Once true, only another era or another member can change it.
    if (known === all && knownAt === eraDetections()) return true;
    if (!all.every(seesHeaders)) return false;
    known = all;
    knownAt = eraDetections();
    return true;
  };
}

function seesHeaders(member: OpenUpstream): boolean {
  return member.seesHeaders();
}

function closing(links: () => readonly Links[]): (reason: string) => Promise<void> {
  return async (reason) => {
    await Promise.all(links().map((each) => each.close(reason)));
  };
}

async function closeAll(members: readonly OpenUpstream[], reason: string): Promise<void> {
  await Promise.all(members.map((member) => member.close(reason)));
}

function optionsOf(route: string, config: FederationConfig): FederationOptions {
  const { view, views, overrides } = config;
  return {
    ...config,
    route,
    overrides: compileOverrides(overrides),
    views: views.map(compileView),
    isCanonical,
    hasCallerCredentials: config.members.some(
      ({ upstream }) => upstream.type === "http" && upstream.credentials?.tokenExchange !== undefined,
    ),
    view: view === undefined ? undefined : compileView(view),
  };
}

/** The overrides with compiled values; expressions read what rules for requests read. */
function compileOverrides({ tools }: FederationConfig["overrides"]): ReadonlyMap<string, ToolOverride> | undefined {
  if (Object.keys(tools).length === 0) return undefined;
  return new Map(
    Object.entries(tools).map(([tool, { arguments: args, ...override }]) => {
      const compiled = Object.entries(args).map(([name, argument]) => [
        name,
        { ...argument, fixed: argument.fixed === undefined ? undefined : fixedValue(argument.fixed) },
      ]);
      return [tool, { ...override, arguments: Object.fromEntries(compiled) as ToolOverride["arguments"] }];
    }),
  );
}

/** A condition that fails counts as true: a view shows less, not more. */
function compileView({ when, ...view }: ViewConfig): ViewOptions {
  if (when === undefined) return { ...view, isCanonical, when };
  const compiled = compileCondition(when, "call");
  if (!compiled.ok) throw new GatewayError("config_invalid", `a view: ${compiled.problem.message}`);
  return {
    ...view,
    isCanonical,
    when: (exchange) => {
      try {
        return compiled.value.test(new Bindings(InspectedMessage.of(exchange), everything));
      } catch {
        return true;
      }
    },
  };
}

function isCanonical(uri: string, isReference: boolean): boolean {
  return isReference && isUriTemplate(uri) ? isCanonicalTemplate(uri) : isCanonicalUri(uri);
}

const everything: NeededMembers = { "mcp.arguments": "all", "mcp.params": "all", "principal.claims": "all" };

function fixedValue(value: unknown): NonNullable<ArgumentOverride["fixed"]> {
  if (typeof value !== "string") return () => JSON.stringify(value);
  const compiled = compileExpression(value, "call", "value");
  if (!compiled.ok) throw new GatewayError("config_invalid", `an override: ${compiled.problem.message}`);
  return (exchange) => {
    try {
      const json = toJson(compiled.value.evaluate(new Bindings(InspectedMessage.of(exchange), everything)));
      if (json !== undefined) return json;
    } catch {
      // The caller only learns that the call cannot be made.
    }
    throw new GatewayError("invalid_params", "an argument that the gateway sets has no value for this call");
  };
}

/** A session opens a link to every member, so the member with the smallest limit decides how many there can be. */
function narrowestOf(limits: () => readonly LinkLimits[]): LinkLimits {
  const chosen = (): readonly LinkLimits[] => {
    const counting = limits().filter(({ countsSessions }) => countsSessions);
    return counting.length === 0 ? limits() : counting;
  };
  // Read with each use: a reload may change the members.
  return {
    get perPrincipal() {
      return Math.min(...chosen().map(({ perPrincipal }) => perPrincipal));
    },
    get total() {
      return Math.min(...chosen().map(({ total }) => total));
    },
    get countsSessions() {
      return limits().some(({ countsSessions }) => countsSessions);
    },
  };
}
