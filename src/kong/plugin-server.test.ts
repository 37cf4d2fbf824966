import { afterEach, describe, expect, it } from "vitest";
import { createFakeTime, settled } from "../../test/support/fake-time.ts";
import type { PhaseHandler } from "./phase-event.ts";
import { createPluginServer, timeLimits, type PluginServer } from "./plugin-server.ts";
import type { RpcOutcome } from "./frames.ts";

const servers: PluginServer[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** Writes the reason to Kong's log, and nothing else. */
const failInLog: PhaseHandler["fail"] = (kong, reason) => kong("kong.log.err", `unexpected error: ${reason}`);

function start(run: PhaseHandler["run"], fail: PhaseHandler["fail"] = failInLog) {
  const phase: PhaseHandler = { run, fail };
  const time = createFakeTime();
  const faults: unknown[] = [];
  let closed = 0;
  const server = createPluginServer({
    pluginName: "plugin",
    firstId: 1000,
    clock: time.clock,
    setTimer: time.setTimer,
    createInstance: ({ config }) => {
      if (config === "bad") throw new Error("service_url: is required");
      return { phase: (name) => (name === "access" ? phase : undefined), close: () => (closed += 1) };
    },
    log: { warn: () => {}, error: (_message, fields) => faults.push(fields?.["error"]) },
  });
  servers.push(server);
  /** Makes a call; the outcome is undefined as long as there is none. */
  function call(method: string, argument: unknown) {
    const state: { outcome: RpcOutcome | undefined; abandon: () => void } = {
      outcome: undefined,
      abandon: () => {},
    };
    state.abandon = server.handle({ id: 1, method, argument }, (outcome) => {
      state.outcome = outcome;
    });
    return state;
  }
  const instance = () => call("StartInstance", { Name: "plugin", Config: "{}" });
  const event = (id = 1000) => call("HandleEvent", { InstanceId: id, EventName: "access" });
  return { server, time, faults, call, instance, event, closed: () => closed };
}

const step = (data: unknown) => ({ EventId: 1000, Data: data });
const asks = (Method: string, Args: readonly unknown[] = []) => ({
  result: { EventId: 1000, Data: { Method, Args } },
});
const returned = { result: { EventId: 1000, Data: "ret" } };
const never = new Promise<never>(() => {});

describe("the plugin server", () => {
  it("[PX-01] starts, runs and closes, and keeps nothing", async () => {
    const { server, call, instance, event, closed } = start(async ({ kong }) => {
      const address = await kong("kong.client.get_ip");
      return { end: "exit", exit: { status: 403, headers: { via: [address] }, body: Buffer.from("no") } };
    });
    expect(instance().outcome).toEqual({
      result: { Name: "plugin", Id: 1000, Config: null, StartTime: 1_767_225_600 },
    });
    expect(event().outcome).toEqual(asks("kong.client.get_ip"));
    const stepped = call("Step", step("192.0.2.1"));
    await settled();
    expect(stepped.outcome).toEqual(asks("kong.response.exit", [403, Buffer.from("no"), { via: "192.0.2.1" }]));
    expect(server.counts()).toEqual({ instances: 1, events: 0 });
    expect(call("CloseInstance", 1000).outcome).toEqual({ result: null });
    expect([server.counts().instances, closed()]).toEqual([0, 1]);
  });

  it("[PX-01] frees an event whose phase made no call at all", async () => {
    const { server, instance, event } = start(() => Promise.resolve({ end: "continue" }));
    instance();
    const started = event();
    await settled();
    expect([started.outcome, server.counts().events]).toEqual([returned, 0]);
  });

  it("[PA-216] sends concurrent PDK calls one after the other", () => {
    const { call, instance, event } = start(async ({ kong }) => {
      await Promise.all([kong("kong.client.get_ip"), kong("kong.client.get_port")]);
      return never;
    });
    instance();
    event();
    // Nothing was awaited between the step and the next call: the reply is there at once.
    expect(call("Step", step("192.0.2.1")).outcome).toEqual(asks("kong.client.get_port"));
  });

  it("[PA-008] answers 500 with an empty body when a phase throws, and logs it in Kong", async () => {
    const { faults, call, instance, event } = start(() => Promise.reject(new Error("broken")));
    instance();
    const started = event();
    await settled();
    expect(started.outcome).toEqual(asks("kong.log.err", ["unexpected error: broken"]));
    const logged = call("Step", step(undefined));
    await settled();
    expect(logged.outcome).toEqual(asks("kong.response.exit", [500, new Uint8Array(0)]));
    expect(String(faults[0])).toContain("broken");
  });

  it("answers 500 when the PDK returns an unexpected type", async () => {
    const { call, instance, event } = start(async ({ kong }) => {
      await kong("kong.client.get_port");
      return { end: "continue" };
    });
    instance();
    event();
    const stepped = call("Step", step("no number"));
    await settled();
    expect(stepped.outcome).toMatchObject(
      asks("kong.log.err", [expect.stringContaining("kong.client.get_port returned")]),
    );
  });

  it("[PA-008] answers 500 when a PDK call fails", async () => {
    const { call, instance, event } = start(async ({ kong }) => {
      await kong("kong.client.get_ip");
      return { end: "continue" };
    });
    instance();
    event();
    const stepped = call("StepError", step("out of order"));
    await settled();
    expect(stepped.outcome).toMatchObject(asks("kong.log.err", ["unexpected error: kong.client.get_ip: out of order"]));
  });

  it("[PX-04] never calls the PDK after the end of a phase", async () => {
    const late = Promise.withResolvers<unknown>();
    const { server, instance, event } = start(({ kong }) => {
      setImmediate(() => {
        late.resolve(kong("kong.client.get_ip").catch((error: unknown) => String(error)));
      });
      return Promise.resolve({ end: "exit", exit: { status: 401, headers: {}, body: Buffer.from("") } });
    });
    instance();
    const started = event();
    await expect(late.promise).resolves.toContain("after the phase ended");
    // A body is always given: a nil would make Lua lose what stands behind it.
    expect(started.outcome).toEqual(asks("kong.response.exit", [401, Buffer.from("")]));
    expect(server.counts().events).toBe(0);
  });

  it("sends all PDK calls before it ends, even if the phase did not wait for them", async () => {
    const { call, instance, event } = start(({ kong }) => {
      void kong("kong.log.warn", "careful");
      return Promise.resolve({ end: "continue" });
    });
    instance();
    const started = event();
    await settled();
    expect(started.outcome).toEqual(asks("kong.log.warn", ["careful"]));
    const stepped = call("Step", step(undefined));
    await settled();
    expect(stepped.outcome).toEqual(returned);
  });

  it("[PX-01] aborts the phase when Kong has hung up, and drops the event", async () => {
    let reason: unknown;
    const { server, faults, instance, event } = start(({ signal }) => {
      signal.addEventListener("abort", () => {
        reason = signal.reason;
      });
      return never;
    });
    instance();
    event().abandon();
    await settled();
    expect([String(reason), server.counts().events, faults]).toEqual(["EventEndedError: Kong no longer waits", 0, []]);
  });

  it("[PX-01] drops an event that Kong never returns to", async () => {
    const ended = Promise.withResolvers<unknown>();
    const { server, time, instance, event } = start(async ({ kong }) => {
      await kong("kong.request.get_raw_body", 1).catch(ended.resolve);
      throw new Error("nobody hears this");
    });
    instance();
    event();
    await time.advance(timeLimits.stepWithinMs - 2000);
    expect(server.counts().events).toBe(1);
    await time.advance(4000);
    await expect(ended.promise).resolves.toMatchObject({ message: "Kong did not return" });
    expect([server.counts().events, time.pending()]).toEqual([0, 0]);
  });

  it("[PX-02] answers before Kong gives up: first it aborts the phase, then it forces its end", async () => {
    let isHurried = false;
    const { server, time, call, instance, event } = start(({ signal }) => {
      signal.addEventListener("abort", () => {
        isHurried = true;
      });
      return never;
    });
    instance();
    const started = event();
    await time.advance(timeLimits.abortAfterMs - 1500);
    expect([isHurried, started.outcome]).toEqual([false, undefined]);
    await time.advance(2500);
    expect([isHurried, started.outcome]).toEqual([true, undefined]);
    await time.advance(3000);
    // The phase may still clean up in Kong; what ran too long may not.
    expect(started.outcome).toEqual(asks("kong.log.err", ["unexpected error: the phase did not end in time"]));
    const stepped = call("Step", { EventId: 1000, Data: null });
    await time.advance(0);
    expect(stepped.outcome).toEqual(asks("kong.response.exit", [500, new Uint8Array(0)]));
    expect(server.counts().events).toBe(0);
    expect(timeLimits.forceEndAfterMs + timeLimits.sweepEveryMs).toBeLessThan(60_000);
  });

  it("[PX-02] measures the time between two PDK calls, not that of the whole phase", async () => {
    const { time, call, instance, event } = start(async ({ kong }) => {
      await kong("kong.client.get_ip");
      return never;
    });
    instance();
    event();
    await time.advance(timeLimits.forceEndAfterMs);
    const stepped = call("Step", step("192.0.2.1"));
    await time.advance(timeLimits.abortAfterMs - 2000);
    expect(stepped.outcome).toBeUndefined();
  });

  it("answers an unknown instance with the text that makes Kong start one", () => {
    const { event } = start(() => never);
    expect(event(7).outcome).toEqual({ error: "no plugin instance 7" });
  });

  it("uses other ids in every process, so that those of the previous one do not match", () => {
    const { call, instance, event } = start(() => never);
    instance();
    expect(event(0).outcome).toEqual({ error: "no plugin instance 0" });
    expect(call("Step", { EventId: 0, Data: "x" }).outcome).toEqual({
      error: "no plugin instance has an event 0",
    });
  });

  it("refuses another plugin, a bad configuration, an unknown phase, an unknown method and a step out of turn", () => {
    const { call, instance, event } = start(() => never);
    instance();
    event();
    expect(call("StartInstance", { Name: "other", Config: "{}" }).outcome).toHaveProperty("error");
    expect(call("StartInstance", { Name: "plugin", Config: "bad" }).outcome).toEqual({
      error: "service_url: is required",
    });
    expect(call("HandleEvent", { InstanceId: 1000, EventName: "log" }).outcome).toEqual({
      error: "plugin has no phase log",
    });
    expect(call("Reload", {}).outcome).toEqual({ error: "no method Reload" });
    expect(call("Step", step("x")).outcome).toEqual({ error: "event 1000 expected no step" });
  });

  it("closes instances of dead workers, long after their last event", async () => {
    const { server, time, instance, event, closed } = start(() => Promise.resolve({ end: "continue" }));
    instance();
    instance();
    await time.advance(timeLimits.idleInstanceMs - 1000);
    event(1001);
    await time.advance(2000);
    instance();
    expect([server.counts().instances, closed()]).toEqual([2, 1]);
  });

  it("waits for running events before it stops", async () => {
    const gate = Promise.withResolvers<{ end: "continue" }>();
    const { server, instance, event } = start(() => gate.promise);
    instance();
    event();
    let isIdle = false;
    const idle = server.whenIdle().then(() => {
      isIdle = true;
    });
    await settled();
    expect(isIdle).toBe(false);
    gate.resolve({ end: "continue" });
    await idle;
    expect(isIdle).toBe(true);
  });
});
