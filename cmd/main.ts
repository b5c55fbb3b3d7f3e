/** The tool for people: `cni`, and `cnitool` where it is called by that name. */
import { basename } from "node:path"
import { processTerminal } from "../tools/environment.ts"
import { cni } from "./cni/main.ts"
import { cnitool } from "./cnitool.ts"

process.exitCode = 1 // until the command says otherwise
const tool = basename(process.argv0) === "cnitool" ? cnitool : cni
tool(process.argv.slice(2), processTerminal()).then((code) => {
  process.exitCode = code
})
