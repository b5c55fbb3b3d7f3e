/** The tool for people: `cni`, and `cnitool` where it is called by that name. */
import { basename } from "node:path"
import { runTool } from "./cni/main.ts"
import { runCnitool } from "./cnitool/main.ts"

process.exitCode = 1 // until the command says otherwise
const run = basename(process.argv0) === "cnitool" ? runCnitool : runTool
run(process.argv.slice(2))
