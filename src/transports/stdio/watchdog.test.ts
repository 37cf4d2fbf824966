import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { openRollCall, type RollCall } from "../../../test/support/stdio.ts";
import { systemClock, systemTimer } from "../../core/exchange.ts";
import { listProcesses, type ProcessTree, processTreeOf } from "./process-tree.ts";
import { createWatchdog, type Watchdog, type WatchdogDeps } from "./watchdog.ts";
import { eventually } from "../../../test/support/eventually.ts";

const node = process.execPath;
const fixtures = resolve(import.meta.dirname, "../../../test/fixtures/stdio");
const holder = join(fixtures, "holder.mjs");
const gateway = join(fixtures, "gateway.mjs");

async function callRoll(): Promise<RollCall> {
  const rollCall = await openRollCall();
  onTestFinished(() => rollCall.close());
  return rollCall;
}

function create(deps: Partial<WatchdogDeps> = {}): Watchdog {
  const watchdog = createWatchdog({
    environment: { PATH: process.env["PATH"] },
    clock: systemClock,
    setTimer: systemTimer,
    graceMs: 50,
    ...deps,
  });
  onTestFinished(() => watchdog.close());
  return watchdog;
}

/** Starts a process that only a watchdog will end. */
async function startHolder(rollCall: RollCall, name: string): Promise<{ tree: ProcessTree; gone: Promise<void> }> {
  const marker = `${process.pid}.${name}`;
  const child = spawn(node, [holder, rollCall.path, name, "stubborn"], {
    detached: true,
    stdio: "ignore",
    env: { HEADGATE_CHILD: marker },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const { pid, gone } = await rollCall.arrival(name);
  return { tree: processTreeOf(pid, marker), gone };
}

/** The numbers of the watchdogs that a process has started; once ready to work they have changed their title. */
async function watchdogsOf(parent: number | undefined, title = "watchdog"): Promise<readonly number[]> {
  const table = (await listProcesses()) ?? [];
  return table
    .filter((entry) => entry.parent === parent && !entry.isZombie)
    .map(({ pid }) => pid)
    .filter((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(title));
}

function startGateway(command: readonly string[]): ChildProcess {
  const parent = spawn(node, [gateway, ...command], { stdio: ["ignore", "ignore", "inherit"] });
  onTestFinished(() => void parent.kill("SIGKILL"));
  return parent;
}

describe("when the gateway is killed", () => {
  it("its child ends, with all that it started and however stubborn", async () => {
    const rollCall = await callRoll();
    const script = `
      "${node}" "${holder}" "${rollCall.path}" plain &
      "${node}" "${holder}" "${rollCall.path}" stubborn stubborn escape &
      "${node}" "${holder}" "${rollCall.path}" lost abandon &
      wait`;
    const parent = startGateway(["sh", "-c", script]);
    const groups = ["plain", "stubborn"];
    const names = process.platform === "linux" ? [...groups, "stubborn-escaped", "lost-escaped"] : groups;
    const holders = await Promise.all(names.map((name) => rollCall.arrival(name)));
    parent.kill("SIGKILL");
    await Promise.all(holders.map(({ gone }) => gone));
    expect(holders.map(({ name }) => name)).toEqual(names);
  });

  it.runIf(process.platform === "linux")("also when signals to all its processes came first", async () => {
    const rollCall = await callRoll();
    const parent = startGateway([node, holder, rollCall.path, "child", "stubborn"]);
    const child = await rollCall.arrival("child");
    const pid = await eventually(async () => {
      const [ready] = await watchdogsOf(parent.pid, "headgate-watchdog");
      return ready ?? expect.fail("the watchdog is not ready yet");
    });
    for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.kill(pid, name);
    parent.kill("SIGKILL");
    await expect(child.gone).resolves.toBeUndefined();
  });
});

describe("a watchdog", () => {
  it("ends what is still under watch when it is closed, and leaves alone what it was told to forget", async () => {
    const rollCall = await callRoll();
    const watchdog = create();
    const [watched, forgotten] = await Promise.all([
      startHolder(rollCall, "watched"),
      startHolder(rollCall, "forgotten"),
    ]);
    void watchdog.watch(watched.tree);
    void watchdog.watch(forgotten.tree);
    watchdog.forget(forgotten.tree);
    await watchdog.close();
    await watched.gone;
    expect(process.kill(forgotten.tree.leader, 0)).toBe(true);
  });

  it("does not forget a tree whose number it got again", async () => {
    const rollCall = await callRoll();
    const watchdog = create();
    const { tree, gone } = await startHolder(rollCall, "later");
    void watchdog.watch(tree);
    watchdog.forget({ ...tree, marker: "earlier" });
    await watchdog.close();
    await expect(gone).resolves.toBeUndefined();
  });

  it.runIf(process.platform === "linux")("is started with the first tree, and only once", async () => {
    const rollCall = await callRoll();
    const before = await watchdogsOf(process.pid);
    const watchdog = create();
    expect(await watchdogsOf(process.pid)).toEqual(before);
    for (const name of ["one", "two"]) void watchdog.watch((await startHolder(rollCall, name)).tree);
    expect((await watchdogsOf(process.pid)).length).toBe(before.length + 1);
  });

  it.runIf(process.platform === "linux")("is started anew with all trees when it ends", async () => {
    const rollCall = await callRoll();
    const trouble = Promise.withResolvers<string>();
    const before = await watchdogsOf(process.pid);
    const watchdog = create({ onError: (error) => trouble.resolve(error.message) });
    const holders = await Promise.all(["a", "b"].map((name) => startHolder(rollCall, name)));
    for (const { tree } of holders) void watchdog.watch(tree);
    for (const pid of await watchdogsOf(process.pid)) if (!before.includes(pid)) process.kill(pid, "SIGKILL");
    expect(await trouble.promise).toContain("the watchdog exited");
    await watchdog.close();
    await expect(Promise.all(holders.map(({ gone }) => gone))).resolves.toHaveLength(2);
  });

  it("does not keep its process alive", async () => {
    const rollCall = await callRoll();
    const script = `
      import { createWatchdog } from ${JSON.stringify(resolve(import.meta.dirname, "watchdog.ts"))};
      import { spawn } from "node:child_process";
      const args = ${JSON.stringify([holder, rollCall.path, "left", "stubborn"])};
      const child = spawn(process.execPath, args, { detached: true, stdio: "ignore" });
      child.unref();
      const clock = { now: () => 0, wall: () => 0 };
      const watchdog = createWatchdog({ environment: process.env, clock, setTimer: setTimeout, graceMs: 50 });
      void watchdog.watch({ leader: child.pid, marker: "none", startedAt: undefined });
    `;
    const parent = spawn(node, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "ignore", "inherit"],
    });
    onTestFinished(() => void parent.kill("SIGKILL"));
    const [code] = (await once(parent, "exit")) as [number | null];
    expect(code).toBe(0);
  });
});
