import { exit } from "../libc/mod.ts"

const acts = new Set<() => void>()

/** Registers an action that `leave` runs at the end of the process. Disposal removes the registration. */
export function onLeave(act: () => void): Disposable {
  acts.add(act)
  return { [Symbol.dispose]: () => void acts.delete(act) }
}

/** Runs the registered actions and ends the process. */
export function leave(status: number): never {
  for (const act of acts) act()
  return exit(status)
}
