/** Values for the tests of the packet filters' rules. For tests only: the door does not export it. */
export { SpoofCheck } from "./spoof-check.ts"
