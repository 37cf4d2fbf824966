import * as z from "zod";

import type { RouteConfig } from "../../../config/config.ts";
import { anonymous } from "../../../core/exchange.ts";
import { InspectedMessage } from "../../../core/interceptors/inspected-message.ts";
import { GatewayError } from "../../../errors.ts";
import { yaml } from "../../../lib/lazy-modules.ts";
import { createCelProvider } from "../../../policy/cel/provider.ts";
import { policyConfig } from "../../../policy/config.ts";
import { explainMessage } from "../../evaluation/explained-exchange.ts";
import { explanationSchema } from "../../evaluation/explanation.ts";
import {
  principalInput,
  requestInput,
  toMessage,
  toSampleExchange,
  toSamplePrincipal,
} from "../../evaluation/sample-exchange.ts";
import type { AdminDeps } from "../deps.ts";
import { defineEndpoint } from "../endpoint.ts";
import { windowOf, windowQuery } from "../filter-query.ts";
import { type ReplayJob, replayJobSchema } from "../replay-job.ts";
import { nothing } from "../schemas.ts";
import { demandRight } from "../sign-in/sign-in.ts";

/** Room for thousands of rules. Bounded, because compiling them blocks everything else. */
const maxPolicyText = 250_000;
const routeName = z.string().min(1).max(200);

/** `GET /policies/{route}`: the rules that decide on a route, as YAML. */
export const getPolicy = defineEndpoint({
  method: "GET",
  path: "/policies/{route}",
  name: "getPolicy",
  summary: "The policy of a route as YAML, to read or to try changes on.",
  right: "view",
  pathSchema: z.strictObject({ route: routeName }),
  query: nothing,
  result: z.strictObject({
    kind: z.enum(["none", "rules", "remote"]),
    text: z.string().describe("Rules as YAML; empty without a policy, or with an external decision point."),
  }),
  handle: ({ path }, deps) => {
    const { policy } = routeOf(path.route, deps);
    if (policy === undefined) return { kind: "none" as const, text: 'rules:\n  - id: everything\n    allow: "true"\n' };
    if ((policy.pingAuthorize ?? policy.authzen) !== undefined) return { kind: "remote" as const, text: "" };
    return { kind: "rules" as const, text: yaml().stringify(withoutDefaults(policy)) };
  },
});

/** Leaves out defaults, so that only what was configured is shown. */
function withoutDefaults(policy: NonNullable<RouteConfig["policy"]>): unknown {
  const defaults: Readonly<Record<string, unknown>> = policyConfig.parse({});
  const own = Object.entries(policy).filter(
    ([name, value]) => value !== undefined && JSON.stringify(value) !== JSON.stringify(defaults[name]),
  );
  return written(Object.fromEntries(own));
}

/** A value without members that are false or empty, as their defaults are. */
function written(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(written);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).map(([name, one]) => [name, written(one)] as const);
  return Object.fromEntries(members.filter(([, one]) => one !== false && JSON.stringify(one)?.length !== 2));
}

/** `POST /policy/explain`: tries the rules of a route on a message. */
export const explainPolicy = defineEndpoint({
  method: "POST",
  path: "/policy/explain",
  name: "explainPolicy",
  summary: "Evaluate a message against the rules of a route, or against rules given as YAML; nothing is sent.",
  right: "view",
  pathSchema: nothing,
  query: nothing,
  body: z.strictObject({
    route: routeName,
    method: z.string().min(1).max(200),
    params: z.record(z.string(), z.unknown()).optional(),
    principal: principalInput.optional(),
    text: z
      .string()
      .max(maxPolicyText)
      .optional()
      .describe("Rules as YAML, instead of those of the route; needs the right `operate`."),
  }),
  result: explanationSchema,
  handle: ({ body: { route, method, params, principal, text }, caller }, deps) => {
    // Compiling and evaluating rules keeps the gateway from its clients meanwhile.
    if (text !== undefined) demandRight(caller, "operate", "trying other rules");
    const served = routeOf(route, deps);
    const policy = text === undefined ? served.policy : parsePolicy(text);
    const request = toMessage({ id: 1, method, ...(params === undefined ? {} : { params }) });
    if (!request.ok) throw new GatewayError("invalid_params", `not a message: ${request.problem}`);
    const exchange = toSampleExchange(request.message, {
      route,
      principal: principal === undefined ? anonymous : toSamplePrincipal(principal, served, deps.config()).principal,
      request: requestInput.parse({}),
    });
    return explainMessage(InspectedMessage.of(exchange), policy);
  },
});

/** `POST /policy/replay`: starts to run rules over recent traffic. */
export const startReplay = defineEndpoint({
  method: "POST",
  path: "/policy/replay",
  name: "startPolicyReplay",
  summary: "Run rules over the recorded traffic of a route; the job reports which decisions would change.",
  right: "operate",
  pathSchema: nothing,
  query: nothing,
  body: windowQuery.extend({ route: routeName, text: z.string().max(maxPolicyText).describe("The policy as YAML.") }),
  result: z.strictObject({ job: z.string() }),
  handle: ({ body: { route, text, ...window }, caller }, deps) => {
    // Rules can read any part of a message, and the report contains what they read.
    demandRight(caller, "bodies", "running rules over recorded messages");
    routeOf(route, deps);
    const policy = parsePolicy(text);
    const { where, ...times } = windowOf(window, deps.clock.wall(), caller);
    const ofRoute = { type: "is", field: "route", value: route } as const;
    const query = { ...times, where: { type: "all", of: where === undefined ? [ofRoute] : [ofRoute, where] } } as const;
    const job: ReplayJob = { done: 0 };
    deps.queries
      .replay(query, { routes: { [route]: { policy } } }, (done) => {
        job.done = done;
      })
      .then(
        (report) => {
          job.report = report;
        },
        (error: unknown) => {
          job.problem = GatewayError.from(error).message;
        },
      );
    deps.note(caller, "ran rules over recorded messages", { route });
    return { job: deps.replays.add(job) };
  },
});

/** `GET /policy/replay/{job}`: the progress and the findings of a replay. */
export const getReplay = defineEndpoint({
  method: "GET",
  path: "/policy/replay/{job}",
  name: "getPolicyReplay",
  summary: "The progress of a replay, and what would change once it is done.",
  right: "bodies",
  pathSchema: z.strictObject({ job: z.string().min(1).max(100) }),
  query: nothing,
  result: replayJobSchema,
  handle: ({ path }, { replays }) => {
    const { done, report, problem } = replays.get(path.job);
    return {
      state: stateOf(report, problem),
      done: report?.exchanges ?? done,
      ...(report === undefined ? {} : { report }),
      ...(problem === undefined ? {} : { problem }),
    };
  },
});

function stateOf(report: unknown, problem: unknown): "running" | "done" | "failed" {
  if (problem !== undefined) return "failed";
  return report === undefined ? "running" : "done";
}

function routeOf(name: string, { config }: AdminDeps): RouteConfig {
  const { routes } = config();
  const route = Object.hasOwn(routes, name) ? routes[name] : undefined;
  if (route === undefined)
    throw new GatewayError("not_found", `unknown route ${name}; expected one of ${Object.keys(routes).join(", ")}`);
  return route;
}

/** Parses a policy in YAML; throws an error that says what is wrong. */
function parsePolicy(text: string): NonNullable<RouteConfig["policy"]> {
  let value: unknown;
  try {
    value = yaml().parse(text);
  } catch (error) {
    throw new GatewayError("config_invalid", `not YAML: ${error instanceof Error ? error.message : String(error)}`);
  }
  const parsed = policyConfig.safeParse(value);
  if (!parsed.success) throw new GatewayError("config_invalid", z.prettifyError(parsed.error));
  if ((parsed.data.pingAuthorize ?? parsed.data.authzen) !== undefined)
    throw new GatewayError(
      "config_invalid",
      "only rules can be tried; an external decision point cannot evaluate recorded traffic",
    );
  // Compiles every expression.
  createCelProvider(parsed.data, { clock: { now: () => 0 } });
  return parsed.data;
}
