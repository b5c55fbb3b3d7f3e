/**
 * Asynchronous waiting: one event loop for the process, with poll(2), timers, programs, signals and promises. In the
 * native host it drives the process. On Bun and Node the engine's own event loop drives it, so that the same code runs
 * in tests and in other programs.
 *
 * Plugins are synchronous and do not import this package.
 *
 * @example
 * drive(async () => {
 *   const { exitCode } = await runProgram({ path: "/bin/sleep", args: ["60"], env: {}, outputLimit: 0 }, stop.signal)
 *   return exitCode ?? 1
 * })
 */
export { drive } from "./drive.ts"
export { leave, onLeave } from "./leave.ts"
export { every, onSignal, ready, readyOf, sleep, type Until } from "./loop.ts"
export { type Ended, runProgram } from "./programs.ts"
export { anyOf, newStop, type Stop, stopOnceAsked } from "./stop.ts"
