import { emptyRing, FLIGHT_FILE, type Numbered, RING_SLOTS, readRing } from "../../pkg/flight/mod.ts"
import { dirname, exists, findFile, makeDirectories, replaceFile, tryUnlink } from "../../pkg/libc/mod.ts"
import type { Command, Flag } from "../command.ts"

/** The flag of every command that reads the recorder's ring file. */
export const fileFlag = {
  file: { type: "string", value: "FILE", help: `the ring (default ${FLIGHT_FILE})` },
} as const satisfies Record<string, Flag>

export const recorderOn: Command = {
  summary: "Record every plugin call in the flight recorder",
  words: [],
  flags: {},
  help: `Creates ${FLIGHT_FILE}, a ring of ${RING_SLOTS} lines in 1 MiB that never grows, readable by root only. While it exists, the
plugins of this suite write a line for each call. A reboot deletes it. An existing ring is kept.

Example:
  cni recorder on; cni log --follow`,
  async run(_args, terminal) {
    if (!exists(FLIGHT_FILE)) {
      makeDirectories(dirname(FLIGHT_FILE))
      replaceFile(FLIGHT_FILE, emptyRing(), 0o600)
    }
    if (terminal.interactive) terminal.stdout(`Recording into ${FLIGHT_FILE}\n`)
  },
}

export const recorderOff: Command = {
  summary: "Stop recording, and delete the recorded calls",
  words: [],
  flags: {},
  help: `Removes ${FLIGHT_FILE}, if it exists.`,
  async run(_args, terminal) {
    tryUnlink(FLIGHT_FILE)
    if (terminal.interactive) terminal.stdout("Recording is off\n")
  },
}

/** Returns the recorded lines, or undefined if the recorder is off. Throws for a file that is not a ring. */
export function readLines(file: string = FLIGHT_FILE): Numbered[] | undefined {
  const bytes = findFile(file)
  if (bytes === undefined) return undefined
  const lines = readRing(bytes)
  if (lines === undefined) throw new Error(`Cannot read "${file}": it is not a flight recorder's file`)
  return lines
}
