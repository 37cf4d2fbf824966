import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { type Heard, listen, noWatchdog, openRollCall, type RollCall } from "../../../test/support/stdio.ts";
import { GatewayError } from "../../errors.ts";
import { systemTimer } from "../../core/exchange.ts";
import { type ChildChannel, type ChildDeps, type ChildOptions, startChild } from "./child.ts";

const node = process.execPath;
const fixtures = resolve(import.meta.dirname, "../../../test/fixtures/stdio");
const echo = join(fixtures, "echo.mjs");
const holder = join(fixtures, "holder.mjs");
const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}';

interface Started {
  readonly child: ChildChannel;
  readonly heard: Heard;
  readonly stderr: string[];
}

async function start(
  args: readonly string[],
  options: Partial<ChildOptions> = {},
  deps: Partial<ChildDeps> = {},
): Promise<Started> {
  const heard = listen();
  const stderr: string[] = [];
  const child = await startChild({ command: node, args, graceMs: 100, ...options }, heard, {
    environment: { PATH: process.env["PATH"] },
    newId: randomUUID,
    setTimer: systemTimer,
    watchdog: noWatchdog,
    onStderr: (line) => stderr.push(line),
    ...deps,
  });
  onTestFinished(() => child.close("the test is over"));
  return { child, heard, stderr };
}

/** A server written on the spot. */
async function startScript(script: string, options: Partial<ChildOptions> = {}): Promise<Started> {
  return start(["--input-type=module", "-e", script], options);
}

async function callRoll(): Promise<RollCall> {
  const rollCall = await openRollCall();
  onTestFinished(() => rollCall.close());
  return rollCall;
}

async function rejection(promise: unknown): Promise<GatewayError> {
  return Promise.resolve(promise).then(
    () => expect.fail("it was expected to reject"),
    (error: unknown) => GatewayError.from(error),
  );
}

function causeOf(error: GatewayError): string {
  return error.cause instanceof Error ? error.cause.message : "";
}

describe("a child's messages", () => {
  it("pass both ways with the same bytes", async () => {
    const { child, heard } = await start([echo]);
    await child.send(Buffer.from(ping));
    await child.send(Buffer.from('{"text":"größer 🚀"}'));
    expect(await heard.received(2)).toEqual([ping, '{"text":"größer 🚀"}']);
  });

  it("go out on one line each, however they were laid out", async () => {
    const { child, heard } = await start([echo]);
    await child.send(Buffer.from('{\r\n  "text": "a\\nb"\n}'));
    expect(await heard.received(1)).toEqual(['{    "text": "a\\nb" }']);
  });

  it("[SC-019] are whole when they come in parts, with CR LF and blank lines between", async () => {
    const { child, heard } = await startScript(`
      const text = Buffer.from('{"text":"é"}\\r\\n\\r\\n\\n{"last":true}\\n');
      process.stdout.write(text.subarray(0, 10));
      process.stdin.once("data", () => process.stdout.write(text.subarray(10)));
    `);
    await child.send(Buffer.from(ping));
    expect(await heard.received(2)).toEqual(['{"text":"é"}', '{"last":true}']);
    expect(heard.rubbishLines).toEqual([]);
  });

  it("[SC-019] survive the rubbish between them", async () => {
    const { heard } = await startScript(`
      process.stdout.write(Buffer.concat([
        Buffer.from("Server listening…\\n[INFO] ready\\n"),
        Buffer.from([0xff, 0xfe, 0x0a]),
        Buffer.from(${JSON.stringify(`${ping}\n`)}),
      ]));
      setInterval(() => {}, 1000);
    `);
    expect(await heard.received(1)).toEqual([ping]);
    expect(heard.rubbishLines.map(({ text }) => text)).toEqual(["Server listening…", "[INFO] ready", "\ufffd\ufffd"]);
  });

  it("[SC-019] survive a line over the limit", async () => {
    const line = JSON.stringify({ text: "x".repeat(200_000) });
    const { child, heard } = await start([echo], { maxLineBytes: 1000 });
    await child.send(Buffer.from(line));
    await child.send(Buffer.from(ping));
    expect(await heard.received(1)).toEqual([ping]);
    expect(heard.rubbishLines).toEqual([
      { text: "", reason: "it has 200011 bytes, and limits.stdioLineBytes is 1000" },
    ]);
  });

  it("come before the end of a process that leaves at once", async () => {
    const { heard } = await startScript(`
      for (let id = 0; id < 1000; id += 1) process.stdout.write(JSON.stringify({ id, text: "x".repeat(1000) }) + "\\n");
      process.stdout.write('{"unfini');
    `);
    await heard.whenClosed;
    expect(heard.messages).toHaveLength(1000);
    expect(heard.rubbishLines).toEqual([{ text: '{"unfini', reason: "the stream ended within a line" }]);
    expect(heard.order.at(-1)).toBe("closed");
  });

  it("belong to one incarnation of the process", async () => {
    const [first, second] = await Promise.all([start([echo]), start([echo])]);
    expect(first.child.incarnation).not.toBe(second.child.incarnation);
    expect(first.child.pid).not.toBe(second.child.pid);
  });
});

describe("a child's surroundings", () => {
  it("hold the allowed and the configured variables and nothing else of ours", async () => {
    const environment = {
      PATH: process.env["PATH"],
      HOME: "/home/somebody",
      LC_ALL: "C",
      OTHER_SERVERS_TOKEN: "secret",
      NODE_OPTIONS: "--no-warnings",
      HEADGATE_CHILD: "1.outer",
    };
    const { child, heard } = await start(
      ["-e", "console.log(JSON.stringify(process.env))"],
      { env: { API_KEY: "own" } },
      { environment },
    );
    const [text = ""] = await heard.received(1);
    expect(JSON.parse(text)).toEqual({
      PATH: process.env["PATH"],
      HOME: "/home/somebody",
      LC_ALL: "C",
      API_KEY: "own",
      HEADGATE_CHILD: `${process.pid}.${child.incarnation}`,
    });
  });

  it("have the configured working directory", async () => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), "headgate-cwd-")));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const { heard } = await start(["-e", "console.log(JSON.stringify({ cwd: process.cwd() }))"], {
      cwd: folder,
    });
    expect(await heard.received(1)).toEqual([JSON.stringify({ cwd: folder })]);
  });

  it("give its standard error on by lines, which are no sign of failure", async () => {
    const { child, heard, stderr } = await startScript(`
      process.stderr.write("starting\\nready");
      process.stdin.pipe(process.stdout);
    `);
    await child.send(Buffer.from(ping));
    await heard.received(1);
    await child.close("done");
    expect(stderr).toEqual(["starting", "ready"]);
  });
});

describe("a child that cannot start", () => {
  it.each([
    ["is missing", {}, 'cannot start "no-such-server": not found; check the spelling'],
    ["has no working directory", { cwd: "/no/such/folder" }, "working directory does not exist; check `cwd`"],
  ])("says so when the command %s", async (_what, options, text) => {
    const error = await rejection(start([], { command: "no-such-server", ...options }));
    expect(error.code).toBe("upstream_unreachable");
    expect(causeOf(error)).toContain(text);
    expect(error.message).toBe("the server process cannot be started; see the log of the gateway");
  });

  it("says so when the file may not be executed", async () => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-eacces-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const command = join(folder, "server");
    writeFileSync(command, "#!/bin/sh\n", { mode: 0o644 });
    const error = await rejection(start([], { command }));
    expect(causeOf(error)).toContain(`cannot start "${command}": permission denied; check`);
  });

  it("says so when an argument contains a NUL character", async () => {
    const error = await rejection(start(["a\0b"]));
    expect(error.code).toBe("upstream_unreachable");
    expect(causeOf(error)).toContain("contains a NUL character");
  });
});

describe("a child that ends by itself", () => {
  /** On a busy machine its streams can end well before it. */
  const patient = { graceMs: 5000 };

  it("is reported with its exit code, and with its last words for the log alone", async () => {
    const { child, heard } = await startScript(
      `
      console.error("token=abc");
      console.error("cannot find the database");
      process.exit(3);
    `,
      patient,
    );
    const error = await heard.whenClosed;
    expect(error.code).toBe("upstream_unreachable");
    expect(error.message).toBe("the server process exited with exit code 3");
    expect(error.details).toBeUndefined();
    expect(causeOf(error)).toBe("exit code 3, last on stderr:\ntoken=abc\ncannot find the database");
    expect(child.exit).toEqual({
      code: 3,
      signal: undefined,
      byItself: true,
      stderr: ["token=abc", "cannot find the database"],
    });
  });

  it("is reported with its signal", async () => {
    const { heard } = await startScript("process.kill(process.pid, 'SIGKILL')");
    expect((await heard.whenClosed).message).toBe("the server process exited with signal SIGKILL");
  });

  it("refuses what is sent afterwards, and is closed only once", async () => {
    const { child, heard } = await startScript("");
    await heard.whenClosed;
    expect((await rejection(child.send(Buffer.from(ping)))).code).toBe("upstream_unreachable");
    await child.close("late");
    expect(heard.order.filter((what) => what === "closed")).toHaveLength(1);
  });

  it("takes along what its wrapper left running", async () => {
    const rollCall = await callRoll();
    const script = `"${node}" "${holder}" "${rollCall.path}" left stubborn & read line`;
    const { child, heard } = await start(["-c", script], { command: "sh" });
    const left = await rollCall.arrival("left");
    await child.send(Buffer.from(ping));
    const error = await heard.whenClosed;
    await left.gone;
    expect(error.message).toBe("the server process exited with exit code 0");
    expect(heard.order).toEqual(["closed"]);
  });
});

describe("a child that does not listen", () => {
  it("is sent no more than the bound when it never reads", async () => {
    const { child } = await startScript("setInterval(() => {}, 1000)", { maxQueueBytes: 100_000 });
    const message = Buffer.from(JSON.stringify({ text: "x".repeat(10_000) }));
    const outcomes: Promise<void>[] = [];
    let refused: GatewayError | undefined;
    // The kernel's own buffer comes first; then ours fills up.
    for (let sent = 0; refused === undefined && sent < 10_000; sent += 1) {
      const outcome = Promise.resolve(child.send(message));
      outcomes.push(outcome);
      refused = await Promise.race([
        outcome.then(
          () => undefined,
          (error: unknown) => GatewayError.from(error),
        ),
        new Promise<undefined>((next) => setImmediate(() => next(undefined))),
      ]);
    }
    expect(refused?.code).toBe("overloaded");
    expect(refused?.details).toEqual({ limit: 100_000, retryAfter: 1 });
    expect(refused?.message).toContain("the server process does not read its messages");
    const left = Promise.allSettled(outcomes);
    await child.close("done");
    const codes = (await left).flatMap((outcome) =>
      outcome.status === "rejected" ? [GatewayError.from(outcome.reason).code] : [],
    );
    expect(new Set(codes)).toEqual(new Set(["overloaded", "upstream_unreachable"]));
  });

  it("is stopped when it has closed its input and stays", async () => {
    const { child, heard } = await startScript(`
      import { closeSync } from "node:fs";
      closeSync(0);
      console.log('{"ready":true}');
      setInterval(() => {}, 1000);
    `);
    await heard.received(1);
    await Promise.resolve(child.send(Buffer.from(ping))).catch(() => {});
    const error = await heard.whenClosed;
    expect(error.code).toBe("upstream_unreachable");
    expect(error.message).toBe("the server process closed its input and was stopped");
    expect(child.exit?.byItself).toBe(false);
  });

  it("is stopped when it has closed its output and stays", async () => {
    const { heard } = await startScript(`
      import { closeSync } from "node:fs";
      closeSync(1);
      setInterval(() => {}, 1000);
    `);
    expect((await heard.whenClosed).message).toBe("the server process closed its output and was stopped");
  });
});

describe("closing a child", () => {
  it("lets a polite one leave by itself after the end of its input", async () => {
    const { child, heard } = await start([echo], { graceMs: 5000 });
    await child.send(Buffer.from(ping));
    await child.close("the session ended");
    expect(child.exit).toEqual({ code: 0, signal: undefined, byItself: false, stderr: [] });
    expect(heard.messages).toEqual([ping]);
    expect((await heard.whenClosed).message).toBe("the server process was stopped: the session ended");
  });

  it("ends one that ignores the end of its input by SIGTERM", async () => {
    const rollCall = await callRoll();
    const { child } = await start([holder, rollCall.path, "deaf"]);
    await rollCall.arrival("deaf");
    await child.close("done");
    expect(child.exit?.signal).toBe("SIGTERM");
  });

  it("ends one that ignores SIGTERM too by SIGKILL", async () => {
    const rollCall = await callRoll();
    const { child } = await start([holder, rollCall.path, "stubborn", "stubborn"]);
    await rollCall.arrival("stubborn");
    await child.close("done");
    expect(child.exit?.signal).toBe("SIGKILL");
  });

  it("reaches the server behind a wrapper that passes no signals on", async () => {
    const rollCall = await callRoll();
    const { child } = await start(["-c", `"${node}" "${holder}" "${rollCall.path}" inner stubborn; true`], {
      command: "sh",
    });
    const inner = await rollCall.arrival("inner");
    await child.close("done");
    await inner.gone;
    expect(inner.pid).not.toBe(child.pid);
  });

  it.runIf(process.platform === "linux")(
    "reaches descendants that went into sessions of their own, orphans included",
    async () => {
      const rollCall = await callRoll();
      const script = `
        "${node}" "${holder}" "${rollCall.path}" kept escape &
        "${node}" "${holder}" "${rollCall.path}" lost abandon &
        wait`;
      const { child } = await start(["-c", script], { command: "sh" });
      const names = ["kept", "kept-escaped", "lost-escaped"];
      const holders = await Promise.all(names.map((name) => rollCall.arrival(name)));
      await child.close("done");
      await Promise.all(holders.map(({ gone }) => gone));
      expect(holders.map(({ name }) => name)).toEqual(names);
    },
  );

  it("keeps this process alive until all have gone", async () => {
    const rollCall = await callRoll();
    const wrapper = `"${node}" "${holder}" "${rollCall.path}" inner stubborn > /dev/null 2>&1 & read line`;
    const script = `
      import { startChild } from ${JSON.stringify(resolve(import.meta.dirname, "child.ts"))};
      import { systemTimer } from ${JSON.stringify(resolve(import.meta.dirname, "../../core/exchange.ts"))};
      const options = { command: "sh", args: ["-c", ${JSON.stringify(wrapper)}], graceMs: 50 };
      const events = { message() {}, rubbish() {}, closed() {} };
      const watchdog = { watch() {}, forget() {} };
      const deps = { environment: process.env, newId: () => "one", setTimer: systemTimer, watchdog };
      const child = await startChild(options, events, deps);
      process.stdin.once("data", async () => {
        process.stdin.destroy();
        await child.close("done");
        process.exitCode = 42;
      });
    `;
    const parent = spawn(node, ["--input-type=module", "-e", script], {
      stdio: ["pipe", "ignore", "inherit"],
    });
    onTestFinished(() => void parent.kill("SIGKILL"));
    const exited = once(parent, "exit");
    const inner = await rollCall.arrival("inner");
    parent.stdin.write("now");
    await inner.gone;
    expect(await exited).toEqual([42, null]);
  });

  it("is told to the watchdog, as the start was", async () => {
    const told: string[] = [];
    const { child } = await start(
      [echo],
      {},
      {
        watchdog: {
          watch: ({ leader }) => void told.push(`+${leader}`),
          forget: ({ leader }) => told.push(`-${leader}`),
          close: () => Promise.resolve(),
        },
      },
    );
    expect(told).toEqual([`+${child.pid}`]);
    await child.close("done");
    expect(told).toEqual([`+${child.pid}`, `-${child.pid}`]);
  });
});
