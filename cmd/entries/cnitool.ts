import { runCnitool } from "../cnitool/main.ts"

export const run = () => runCnitool(process.argv.slice(2))
