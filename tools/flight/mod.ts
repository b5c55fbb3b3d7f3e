/** The flight recorder: `cni log`, `cni metrics`, `cni recorder`. */

export { log } from "./log.ts"
export { metrics } from "./metrics.ts"
export { recorderOff, recorderOn } from "./recorder.ts"
