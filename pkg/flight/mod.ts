/**
 * The flight recorder: a file of fixed size with a ring of lines, one line for each call of a plugin. It is off unless
 * the file exists.
 *
 * @example
 * using recorder = FlightRecorder.find()
 * recorder?.record({ time: new Date().toISOString(), plugin: "bridge", verb: "ADD", ms: 8.2, exitCode: 0 })
 */
export type { FlightLine, FlightTrace } from "./line.ts"
export { encodeLine, readSlot } from "./line.ts"
export { FlightRecorder } from "./recorder.ts"
export {
  emptyRing,
  FLIGHT_FILE,
  HEAD_BYTES as FLIGHT_HEAD_BYTES,
  type Numbered,
  RING_BYTES,
  RING_SLOTS,
  readHead,
  readRing,
  SLOT_BYTES,
  slotOffset,
} from "./ring.ts"
