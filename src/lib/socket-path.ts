import { connect } from "node:net";

const pipePrefix = "\\\\.\\pipe\\";

/** How long the path of a Unix socket may be: the kernel takes 108 bytes on Linux, 104 elsewhere, with the closing zero. */
export function maxSocketPathBytes(platform: NodeJS.Platform = process.platform): number {
  return platform === "linux" ? 107 : 103;
}

/** Why no server can listen on a path, and what to do; undefined if one can. */
export function socketPathProblem(path: string, platform: NodeJS.Platform = process.platform): string | undefined {
  if (platform === "win32") {
    if (path.toLowerCase().startsWith(pipePrefix)) return undefined;
    return String.raw`${path} is not a named pipe, and Windows has no other sockets here; use a name like \\.\pipe\headgate`;
  }
  const most = maxSocketPathBytes(platform);
  return Buffer.byteLength(path) > most ? `${path} is too long for a socket: at most ${most} bytes` : undefined;
}

/** Whether a process listens on a socket. */
export function hasListener(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const probe = connect(path, () => {
    probe.destroy();
    resolve(true);
  });
  probe.on("error", () => resolve(false));
  return promise;
}

/** The first file descriptor that systemd passes (`sd_listen_fds(3)`). */
const firstPassed = 3;

/** The listening socket that systemd passed to the process `pid`; undefined without one. Throws where there are several. */
export function passedSocket(
  env: Readonly<Record<string, string | undefined>>,
  pid: number = process.pid,
): number | undefined {
  const { LISTEN_PID: receiver, LISTEN_FDS: count } = env;
  // A child inherits the variables, but the sockets are not for it.
  if (receiver !== String(pid) || count === undefined || count === "0") return undefined;
  if (count === "1") return firstPassed;
  throw new Error(`systemd passes ${count} sockets (LISTEN_FDS); have one ListenStream= in the socket unit`);
}
