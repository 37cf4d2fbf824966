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
