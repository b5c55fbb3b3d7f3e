import { Engine } from "../engine/engine.ts"
import { inAcceptedStore } from "../engine/store-guard.ts"
import { type Subject, SWEEP_MS } from "./world.ts"

/** The engine as it is shipped. */
export const engine: Subject = {
  run: (surroundings, signal) => new Engine(surroundings, { sweepMs: SWEEP_MS }).run(signal),
  accept(machine) {
    if (machine.memory) machine.memory = inAcceptedStore(machine.memory)
  },
}
