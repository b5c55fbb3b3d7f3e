/** The parts of the bridge plugin that only tests of packet filter rules use. */
export { SpoofCheck } from "./spoof-check.ts"
