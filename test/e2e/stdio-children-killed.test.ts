// What is left of stdio children when their gateway is killed, at the worst moments. Real processes, real signals.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { findDeathSignal } from "../../src/transports/stdio/launcher.ts";
import { createChildGroup, listProcesses, removeChildGroup } from "../../src/transports/stdio/process-tree.ts";
import { eventually } from "../support/eventually.ts";
import { openRollCall, type RollCall } from "../support/stdio.ts";

const fixtures = resolve(import.meta.dirname, "../fixtures/stdio");
const holder = resolve(fixtures, "holder.mjs");
const gateway = resolve(fixtures, "gateway.mjs");
const isLinux = process.platform === "linux";
const canDieWithParent = (await findDeathSignal()) !== undefined;
const groupProbe = createChildGroup(`${process.pid}.probe`);
removeChildGroup(`${process.pid}.probe`);
const hasGroups = groupProbe !== undefined;

async function callRoll(): Promise<RollCall> {
  const rollCall = await openRollCall();
  onTestFinished(() => rollCall.close());
  return rollCall;
}

function startGateway(command: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
  const parent = spawn(process.execPath, [gateway, ...command], {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, ...env },
  });
  onTestFinished(() => void parent.kill("SIGKILL"));
  return parent;
}

/** The running processes whose environment or command line contains a text. */
async function processesWith(text: string): Promise<readonly number[]> {
  const table = (await listProcesses()) ?? [];
  return table
    .filter(({ pid, isZombie }) => !isZombie && pid !== process.pid)
    .map(({ pid }) => pid)
    .filter((pid) => {
      try {
        return ["environ", "cmdline"].some((file) => readFileSync(`/proc/${pid}/${file}`, "utf8").includes(text));
      } catch {
        return false;
      }
    });
}

describe.runIf(isLinux)("a gateway that is killed while a child starts", () => {
  it.each(["start", "told"])("leaves no child behind (%s)", async (moment) => {
    const rollCall = await callRoll();
    const parent = startGateway([process.execPath, holder, rollCall.path, "early", "stubborn"], { DIE: moment });
    await once(parent, "exit");
    await eventually(async () => expect(await processesWith(`HEADGATE_CHILD=${parent.pid}.`)).toEqual([]));
    expect(await processesWith(rollCall.path)).toEqual([]);
  });

  it("never begins the command that the watchdog does not know", async () => {
    const rollCall = await callRoll();
    const trace = `${rollCall.path}-began`;
    const parent = startGateway(["touch", trace], { DIE: "start" });
    await once(parent, "exit");
    await eventually(async () => expect(await processesWith(trace)).toEqual([]));
    expect(existsSync(trace)).toBe(false);
  });
});

describe.runIf(hasGroups)("a gateway whose server has started a daemon", () => {
  it.each(["SIGKILL", "SIGTERM"] as const)("takes it along when it ends by %s", async (signal) => {
    const rollCall = await callRoll();
    const script = `"${process.execPath}" "${holder}" "${rollCall.path}" far daemon & exec sleep 600`;
    const parent = startGateway(["sh", "-c", script]);
    const daemon = await rollCall.arrival("far-escaped");
    parent.kill(signal);
    await expect(daemon.gone).resolves.toBeUndefined();
  });
});

describe.runIf(canDieWithParent)("a gateway that is killed together with its watchdog", () => {
  it("takes along a child that ignores SIGTERM and the end of its input", async () => {
    const rollCall = await callRoll();
    const parent = startGateway([process.execPath, holder, rollCall.path, "orphan", "stubborn"]);
    const child = await rollCall.arrival("orphan");
    const table = (await listProcesses()) ?? [];
    const others = table.filter((entry) => entry.parent === parent.pid && entry.pid !== child.pid);
    expect(others).toHaveLength(1);
    // Stopped first, so that it does not start another watchdog.
    parent.kill("SIGSTOP");
    for (const { pid } of others) process.kill(pid, "SIGKILL");
    parent.kill("SIGKILL");
    await expect(child.gone).resolves.toBeUndefined();
  });
});
