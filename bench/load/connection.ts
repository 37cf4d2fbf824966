import { connect } from "node:net";
import type { Socket } from "node:net";
import { callTemplates, firstId, lastId } from "./calls.ts";
import type { Target } from "./calls.ts";
import { createFrameReader } from "./frames.ts";

/** One keep-alive connection that carries one call at a time. */
export interface Connection {
  /** Sends the next call in a session; `answered` of the connection says when its answer is there. */
  call(session: string | undefined): void;
  close(): void;
}

let nextId = firstId;

/** Connects, and calls back after each answer, or once when something is not as it must be. */
export async function openConnection(
  target: Target,
  answered: (connection: Connection) => void,
  failed: (error: Error) => void,
): Promise<Connection> {
  const templateOf = callTemplates(target);
  const { hostname, port } = new URL(target.url);
  const socket: Socket = connect({ host: hostname, port: Number(port), noDelay: true });
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  let isClosed = false;
  let expected = "";
  const fail = (reason: string): void => {
    if (isClosed) return;
    isClosed = true;
    socket.destroy();
    failed(new Error(reason));
  };
  socket.on("error", (error) => fail(`the connection broke: ${error.message}`));
  socket.on("close", () => fail("the connection was closed"));
  socket.on(
    "data",
    createFrameReader((head, body) => {
      // An answer that is not the one to the question would be counted as a good one by a careless generator.
      if (!head.startsWith("HTTP/1.1 200") || body.indexOf(expected) < 0) {
        fail(`not the answer to ${expected}: ${head}${body.toString()}`);
      } else {
        answered(connection);
      }
    }),
  );
  const connection: Connection = {
    call(session) {
      const { before, after } = templateOf(session);
      const id = String(nextId);
      nextId = nextId === lastId ? firstId : nextId + 1;
      expected = `"id":${id}`;
      socket.write(`${before}${id}${after}`, "latin1");
    },
    close() {
      isClosed = true;
      socket.destroy();
    },
  };
  return connection;
}
