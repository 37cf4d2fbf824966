import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { startProcess } from "./process.ts";
import { freePort } from "./free-port.ts";

/** A running nginx; leaving the scope that holds it ends it. */
export interface RunningNginx extends AsyncDisposable {
  /** Where it listens, without a path. */
  readonly origin: string;
  /** What it has said: why requests failed. */
  readonly output: () => string;
}

const program = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"].find((path) => existsSync(path));

/** Runs nginx with one server block on a free port of loopback; `server` is what stands inside the block. */
export async function startNginx(server: string, options: { readonly isTls?: boolean } = {}): Promise<RunningNginx> {
  const port = await freePort();
  const block = `server {\n    listen 127.0.0.1:${port}${options.isTls === true ? " ssl" : ""};\n    ${server}\n  }`;
  return startAt(port, block, options.isTls ?? false);
}

/** Runs nginx with an http block, which `http` makes for a port of loopback. */
export async function startNginxWith(http: (port: number) => string): Promise<RunningNginx> {
  const port = await freePort();
  return startAt(port, http(port), false);
}

/** Has nginx read a configuration of its http block, and answers with what it says; throws where it refuses. */
export function checkNginx(http: string): string {
  const folder = mkdtempSync(join(tmpdir(), "headgate-nginx-"));
  try {
    const config = join(folder, "nginx.conf");
    writeFileSync(config, `pid ${folder}/nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\n${http}\n}\n`);
    const { stderr, status } = spawnSync(found(), ["-t", "-p", folder, "-c", config, "-e", "stderr"], {
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`nginx refuses the configuration:\n${stderr}`);
    return stderr;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function found(): string {
  if (program === undefined) throw new Error("this test needs nginx: install the package `nginx-light`");
  return program;
}

async function startAt(port: number, http: string, isTls: boolean): Promise<RunningNginx> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-nginx-"));
  const config = join(folder, "nginx.conf");
  writeFileSync(
    config,
    `daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log stderr warn;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  ${http}
}
`,
  );
  const running = await startProcess([found(), "-p", folder, "-c", config, "-e", "stderr"]);
  try {
    await untilListening(port, running.exited);
  } catch (error) {
    throw new Error(`nginx does not listen:\n${running.output()}`, { cause: error });
  }
  return {
    origin: `${isTls ? "https" : "http"}://127.0.0.1:${port}`,
    output: () => running.output(),
    [Symbol.asyncDispose]: async () => {
      await running.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function untilListening(port: number, exited: Promise<unknown>): Promise<void> {
  let isOver = false;
  void exited.then(() => {
    isOver = true;
  });
  while (!isOver) {
    const socket = connect(port, "127.0.0.1");
    const { promise, resolve } = Promise.withResolvers<boolean>();
    socket.once("connect", () => resolve(true));
    socket.once("error", () => resolve(false));
    const isOpen = await promise;
    socket.destroy();
    if (isOpen) return;
    await new Promise((done) => {
      setTimeout(done, 10);
    });
  }
  throw new Error("it ended");
}
