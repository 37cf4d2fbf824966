import { memoryStore } from "./memory.ts";
import { describeStore } from "../../../test/support/entity-store-contract.ts";

describeStore("memory", async () => memoryStore());
