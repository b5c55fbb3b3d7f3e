/** What tests of the packet filters' rules are written with. For tests only: the door does not export it. */
export { SpoofCheck } from "./spoof-check.ts"
