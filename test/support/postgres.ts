import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, globSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { listProcesses } from "../../src/transports/stdio/process-tree.ts";

/** A real PostgreSQL server of its own, on a socket in a folder of its own. */
export interface PostgresServer extends AsyncDisposable {
  /** Of an empty database that all share who ask here. */
  readonly connectionString: string;
  /** Ends it and every connection, as a maintenance of the database does. */
  readonly stop: () => Promise<void>;
  /** Starts it again with what it held. */
  readonly start: () => Promise<void>;
  /** Stops every process of it (SIGSTOP): connections stay open, and nothing answers. */
  readonly freeze: () => Promise<void>;
  /** Lets it go on. */
  readonly thaw: () => Promise<void>;
}

/** Starts a server from Debian's packages; where tests run as root, as the user `postgres`, which it insists on. */
export async function startPostgres(): Promise<PostgresServer> {
  const [program] = globSync("/usr/lib/postgresql/*/bin/postgres").toSorted().toReversed();
  if (program === undefined) {
    throw new Error("PostgreSQL is not installed; node scripts/system-parts.ts installs it");
  }
  const folder = mkdtempSync(join(tmpdir(), "headgate-postgres-"));
  const user = process.getuid?.() === 0 ? userIds() : undefined;
  if (user !== undefined) chownSync(folder, user.uid, user.gid);
  const options = { ...user, cwd: folder, env: { PATH: process.env["PATH"], LC_ALL: "C", TZ: "UTC" } };
  const data = join(folder, "data");
  execFileSync(
    join(dirname(program), "initdb"),
    ["--pgdata", data, "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--no-sync"],
    { ...options, stdio: ["ignore", "ignore", "inherit"] },
  );
  const start = async () => {
    // Nothing of it has to survive the test, so it need not wait for the disk.
    const child = spawn(
      program,
      ["-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=50"],
      { ...options, stdio: ["ignore", "ignore", "pipe"] },
    );
    await new Promise<void>((resolve, reject) => {
      let text = "";
      child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
        if (text.includes("ready to accept connections")) resolve();
      });
      child.once("exit", (code) => reject(new Error(`postgres ended with ${code}:\n${text}`)));
    });
    return child;
  };
  const stop = async (child: Awaited<ReturnType<typeof start>>): Promise<void> => {
    const ended = once(child, "exit");
    // SIGINT is its fast shutdown: open connections are cut.
    child.kill("SIGINT");
    await ended;
  };
  const signalAll = async (name: "SIGSTOP" | "SIGCONT"): Promise<void> => {
    const main = running.pid;
    // The main process first, so that it starts no other meanwhile.
    running.kill(name);
    const backends = ((await listProcesses()) ?? []).filter(({ parent }) => parent === main);
    for (const { pid } of backends) {
      try {
        process.kill(pid, name);
      } catch {
        // A backend whose client has gone ends as soon as it may go on.
      }
    }
  };
  let running = await start();
  return {
    connectionString: `postgresql://postgres@${encodeURIComponent(folder)}/postgres`,
    stop: async () => stop(running),
    start: async () => {
      running = await start();
    },
    freeze: async () => signalAll("SIGSTOP"),
    thaw: async () => signalAll("SIGCONT"),
    [Symbol.asyncDispose]: async () => {
      if (running.exitCode === null) await stop(running);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function userIds(): { readonly uid: number; readonly gid: number } {
  const idOf = (flag: string): number => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
  return { uid: idOf("-u"), gid: idOf("-g") };
}
