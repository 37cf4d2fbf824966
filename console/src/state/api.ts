import { signal as createSignal } from "@preact/signals";

/** Whether the gateway does not answer, such as while it restarts. */
export const isAway = createSignal(false);

/** The API beside the console, wherever a proxy has put both. */
const apiRoot = new URL("../api/v1/", document.baseURI);

/** An error that the API answered with. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(status: number, code: string, message: string, details: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }

  /** Whether the gateway did not answer: nothing did, or a proxy did in its place. */
  get isUnreachable(): boolean {
    return this.status === 0 || (this.status >= 502 && this.code === "unknown");
  }
}

/** What a query may hold; undefined members are left out. */
export type Query = Readonly<Record<string, string | number | undefined>>;

/** The address of a path of the API. */
export function apiUrl(path: string, query: Query = {}): string {
  const url = new URL(path, apiRoot);
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, String(value));
  return url.href;
}

/** Reads from the API. */
export function get<Answer>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Answer> {
  return call<Answer>(apiUrl(path, query), signal === undefined ? {} : { signal });
}

/** Sends to the API. */
export function post<Answer>(path: string, body: unknown, signal?: AbortSignal): Promise<Answer> {
  const headers = { "content-type": "application/json" };
  return call<Answer>(apiUrl(path), {
    method: "POST",
    headers,
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
}

/** Deletes by the API. */
export function remove(path: string): Promise<unknown> {
  return call(apiUrl(path), { method: "DELETE" });
}

type Listener = () => void;
const signedOut = new Set<Listener>();

/** Calls back whenever the API says that nobody is signed in. */
export function onSignedOut(listener: Listener): void {
  signedOut.add(listener);
}

/** What is wrong with a request for a stream; undefined if nothing is, and it can be opened. */
export async function problemAt(url: string, signal: AbortSignal): Promise<ApiError | undefined> {
  const stop = new AbortController();
  try {
    const response = await answerTo(url, { signal: AbortSignal.any([signal, stop.signal]) });
    return response.ok ? undefined : await errorOf(response);
  } catch (error) {
    return error instanceof ApiError ? error : undefined;
  } finally {
    stop.abort();
  }
}

async function call<Answer>(url: string, init: RequestInit): Promise<Answer> {
  const response = await answerTo(url, init);
  // The API documents what it answers; its own tests check it against the same schemas.
  if (response.ok) return (await response.json()) as Answer;
  throw await errorOf(response);
}

async function answerTo(url: string, init: RequestInit): Promise<Response> {
  try {
    const response = await fetch(url, { ...init, credentials: "same-origin", cache: "no-store" });
    // A proxy answers in place of a gateway that is away.
    isAway.value = response.status >= 502;
    return response;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    isAway.value = true;
    throw new ApiError(0, "unreachable", "The gateway does not answer. It may be restarting.");
  }
}

/** The error that an answer holds. Proxies answer with errors of their own, which are no JSON. */
async function errorOf(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => undefined);
  const { error } = (body ?? {}) as { readonly error?: { code: string; message: string; details?: object } };
  if (response.status === 401) for (const listener of signedOut) listener();
  const text =
    response.status >= 502 ? "The gateway does not answer. It may be restarting." : `HTTP ${response.status}`;
  return new ApiError(response.status, error?.code ?? "unknown", error?.message ?? text, { ...error?.details });
}
