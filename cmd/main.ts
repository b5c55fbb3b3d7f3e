/** Runs `cni`, or `cnitool` if the program has that name. */
import { programArguments, programName } from "../pkg/libc/mod.ts"
import { drive } from "../pkg/loop/mod.ts"
import { processTerminal } from "../tools/environment.ts"
import { cni } from "./cni/main.ts"
import { cnitool } from "./cnitool.ts"

/** Runs the command line of this process, and exits with its exit code. */
export function runMain(): void {
  const tool = programName() === "cnitool" ? cnitool : cni
  drive(() => tool(programArguments(), processTerminal()))
}

if (import.meta.main) runMain()
