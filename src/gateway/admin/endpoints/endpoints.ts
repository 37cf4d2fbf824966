import type { Endpoint } from "../endpoint.ts";
import { aboutGateway, signInByTicket, signOut } from "./session.ts";

/** Every path of the admin API. */
export const endpoints: readonly Endpoint[] = [signInByTicket, signOut, aboutGateway];
