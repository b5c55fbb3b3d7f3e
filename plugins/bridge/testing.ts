/** Values for tests of packet filter rules. `mod.ts` does not export them. */
export { SpoofCheck } from "./spoof-check.ts"
